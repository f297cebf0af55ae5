"""From `bench data fetch` to records of a run, on archives of the true formats from loopback."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.datasets.sources import SOURCES
from bench.errors import UsageError
from bench.records import finished_run
from bench.run_rows import run_identity
from bench.run_spec import RunSpec
from bench.session import build_session
from bench.store import StudyStore
from bench.study_claim import claim, together
from bench.study_file import study_spec
from bench.train import Training
from tests.support import small_data
from tests.support.archives import make_archive
from tests.support.command import call
from tests.support.loopback import Site, serving


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small_data.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DATA_DIR", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    """A mirror of both archives; the sources know their sizes and checksums."""
    files = {}
    for name, source in list(SOURCES.items()):
        monkeypatch.setitem(SOURCES, name, make_archive(source, tmp_path / "mirror"))
        files[source.archive] = (tmp_path / "mirror" / source.archive).read_bytes()
    return Site(files)


@pytest.mark.parametrize("name", ["cifar-100", "tiny-imagenet"])
def test_fetch(
    name: str,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    source = SOURCES[name]
    with serving(site):
        url = f"{site.address}/{source.archive}"
        assert call(monkeypatch, "data", "fetch", name, "--url", url) == 0
        shown = capsys.readouterr().out.splitlines()
        assert shown[0] == f"fetching {source.title}: {source.archive_bytes:,} bytes"
        ready = "90 training, 10 validation and 20 test images"
        assert shown[-1] == f"{source.title} is ready in data/{source.folder}: {ready}"
        assert call(monkeypatch, "data", "fetch", name, "--url", url) == 0
        assert len(site.ranges) == 1, "what is there is not fetched again"
    assert (tmp_path / "data" / source.folder / "decoded" / "manifest.json").is_file()


def test_fetch_goes_on_and_refuses(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SOURCES["cifar-100"]
    with serving(site):
        fetch = ("data", "fetch", "cifar-100", "--url", f"{site.address}/{source.archive}")
        site.breaks_after = 1000
        assert call(monkeypatch, *fetch) == 2
        assert "1,000 of" in one_line(capsys)
        site.breaks_after = None
        whole = site.files[source.archive]
        site.files[source.archive] = whole[:-1] + b"x"
        assert call(monkeypatch, *fetch) == 2
        assert "is not the published CIFAR-100" in one_line(capsys)
        site.files[source.archive] = whole
        assert call(monkeypatch, *fetch) == 0


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.startswith("bench: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "fetch", "cifar"], "unknown data set 'cifar'; did you mean cifar-100?"),
        (["data", "fetch", "mnist"], "there are cifar-100, tiny-imagenet"),
        (
            ["run", "--workload", "cct-cifar100"],
            "no CIFAR-100 in data: `bench data fetch cifar-100` gets it",
        ),
        (
            ["run", "--workload", "vit-tiny-imagenet", "--data", "real", "--steps", "9"],
            "no Tiny-ImageNet in data: `bench data fetch tiny-imagenet` gets it",
        ),
        (
            ["run", "--workload", "cct-cifar100", "--steps", "9", "--data-dir", "there"],
            "no CIFAR-100 in there: ",
        ),
        (
            ["run", "--workload", "cct-cifar100", "--data", "synthetic"],
            "teach nothing: say how many of the full schedule's",
        ),
        (
            ["run", "--workload", "cct-cifar100", "--data", "synthetic", "--data-dir", "there"],
            "leave one out",
        ),
        (["run", "--data", "true"], "--data is 'true': real or synthetic it must be"),
        (["run", "--data", "real"], "--data real: vit-digits has its own images built in"),
        (["run", "--data", "synthetic"], "--data synthetic: vit-digits has its own images"),
        (["run", "--data-loaders", "65"], "--data-loaders 65 is outside 0 to 64"),
        (
            ["run", "--workload", "cct-cifar100", "--data", "real", "--mode", "time"],
            "mode time measures steps alone, on synthetic batches",
        ),
        (
            ["run", "--workload", "cct-cifar100", "--batch-size", "9"],
            "batch size 9: the recipe of cct-cifar100 mixes pairs of images",
        ),
    ],
)
def test_refused(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert call(monkeypatch, *arguments) == 2
    assert message in one_line(capsys)
    assert list(tmp_path.iterdir()) == []


def test_damaged_data_are_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = small_data.make_data(tmp_path / "mine")
    (folder / "tiny-imagenet-200" / "wnids.txt").write_text("n01443537\n")
    options = ("--workload", "vit-tiny-imagenet", "--data-dir", str(folder))
    assert call(monkeypatch, "run", *options) == 2
    assert "wnids.txt has 1 classes, Tiny-ImageNet has 5" in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_real_and_synthetic_runs_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = small_data.make_data(tmp_path / "mine")
    given = {"workload": "cct-cifar100", "methods": "dense", "steps": 10}
    (real,) = small_data.run_specs(folder, given)
    common = {**given, "seeds": "0"}
    (synthetic,) = replace(study_spec(None, common), device="cpu").runs()
    assert real.run_id != synthetic.run_id
    assert synthetic.dataset is None
    assert real.dataset
    assert real.dataset.startswith("cifar-100:")
    assert not run_identity(real, "s")["synthetic_data"]
    assert run_identity(synthetic, "s")["synthetic_data"]
    assert study_spec(None, common).name != study_spec(None, {**common, "data": "real"}).name
    assert str(tmp_path) not in real.to_json(), "no path of this machine in a record"
    moved = replace(real, stored=None)
    assert (moved.run_id, json.loads(moved.to_json())) == (real.run_id, json.loads(real.to_json()))
    with pytest.raises(UsageError, match="nobody said where cifar-100:"):
        build_session(moved, torch.device("cpu"))


def test_one_study_has_one_data_set(tmp_path: Path) -> None:
    store = StudyStore(tmp_path, "mine")
    given: dict[str, Any] = {"workload": "cct-cifar100", "steps": 10, "name": "mine"}
    real = replace(study_spec(None, {**given, "data": "real"}), datasets=("cifar-100:1234",))
    claim(store, real)
    assert together(store, real) == real
    with pytest.raises(UsageError, match="data real, not by default"):
        together(store, study_spec(None, given))
    with pytest.raises(UsageError, match="datasets cifar-100:1234, not cifar-100:5678"):
        together(store, replace(real, datasets=("cifar-100:5678",)))


def test_the_environment_may_name_the_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_DATA_DIR", str(small_data.make_data(tmp_path / "mine")))
    options = ("--workload", "cct-cifar100,vit-tiny-imagenet", "--methods", "dense", "--dry-run")
    assert call(monkeypatch, "run", *options) == 0
    shown = capsys.readouterr().out
    assert "decoding CIFAR-100" in shown
    assert "decoding Tiny-ImageNet" in shown
    assert shown.count("to do") == 6


def trained(spec: RunSpec) -> tuple[Training, dict[str, Any]]:
    training = Training(build_session(spec, torch.device("cpu")), lambda _: None)
    training.run()
    (row,) = finished_run(run_identity(spec, "study"), training)["runs"]
    return training, row


@pytest.mark.parametrize("workload", ["cct-cifar100", "vit-tiny-imagenet", "vit-cifar100-finetune"])
def test_a_run_trains_evaluates_and_is_recorded(workload: str, tmp_path: Path) -> None:
    folder = small_data.make_data(tmp_path / "mine")
    given = {"workload": workload, "methods": "dense,barter", "steps": "18"}
    specs = small_data.run_specs(folder, given)
    losses = {}
    for spec in specs:
        training, row = trained(spec)
        losses[spec.method] = [record.loss for record in training.steps]
        assert row["status"] == "ok"
        assert not row["synthetic_data"]
        assert "synthetic_data" not in row["reason_codes"]
        assert row["test_images"] == 20
        assert row["test_top1_percent"] is not None
        assert {row["split"] for row in training.evals} == {"validation", "test"}
    ahead = small_data.run_specs(folder, {**given, "methods": "dense"}, loaders=2)
    assert [spec.run_id for spec in ahead] == [specs[0].run_id], "who makes batches is no setting"
    assert [record.loss for record in trained(ahead[0])[0].steps] == losses["dense"]
