"""Cards: found as they are called, read from TOML, refused in one line that says how to add one."""

from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.execution import DEFAULT, Execution
from bench.predict.cards import CARDS, Card, cards_of_file, find_card, read_cards
from bench.predict.target import find_target
from bench.study_file import cards_of_study, study_spec

OWN = (
    '[cards."B200"]\nfp32_tflops = 75\nbandwidth_gb_per_s = 8000\nmemory_gb = 180\nsource = "me"\n'
)


@pytest.mark.parametrize(
    ("asked", "bandwidth", "memory"),
    [
        ("H200", 4800, 141),
        ("NVIDIA H200", 4800, 141),
        ("NVIDIA H100 80GB HBM3", 3350, 80),
        ("h100 pcie", 2000, 80),
        ("A100", 2039, 80),
        ("NVIDIA A100-SXM4-40GB", 1555, 40),
        ("L40", 864, 48),
        ("RTX 4090", 1008, 24),
        ("Tesla V100-SXM2-32GB", 900, 32),
    ],
)
def test_cards_are_found_by_their_products_names(asked: str, bandwidth: int, memory: int) -> None:
    card = find_card(asked)
    assert (card.bandwidth_gb_per_s, card.memory_gb) == (bandwidth, memory)


def test_a_model_is_no_other_model() -> None:
    assert find_card("L40").tf32_tflops == 90.5
    assert find_card("L40S").tf32_tflops == 183


def test_every_card_has_peaks_in_order_and_a_source() -> None:
    assert len({card.name for card in CARDS}) == len(CARDS)
    for card in CARDS:
        assert 0 < card.fp32_tflops <= (card.tf32_tflops or card.fp32_tflops)
        assert (card.tf32_tflops or 0) <= (card.bf16_tflops or card.fp16_tflops or 0)
        assert card.bandwidth_gb_per_s > 0
        assert card.source.strip()


def test_an_unknown_card_says_how_to_add_it() -> None:
    with pytest.raises(UsageError) as caught:
        find_card("B200")
    message = str(caught.value)
    assert "\n" not in message
    assert "--gpu B200: no figures for it" in message
    assert '[cards."B200"] with fp32_tflops, bandwidth_gb_per_s, memory_gb, source' in message
    assert "H200" in message


def test_own_cards_come_first(tmp_path: Path) -> None:
    file = tmp_path / "cards.toml"
    file.write_text(OWN.replace("B200", "L40"))
    (own,) = cards_of_file(file)
    assert find_card("L40", [own]) is own
    assert find_card("NVIDIA L40", [own]) is own
    assert find_card("L40S", [own]) in CARDS


def test_a_study_file_may_have_cards_and_runs_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('methods = "dense"\nseeds = 0\n' + OWN)
    assert cards_of_study(file) == (Card("B200", 75, 8000, 180, "me"),)
    assert len(study_spec(file, {}).runs()) == 1
    file.write_text(OWN.replace("memory_gb", "memory"))
    with pytest.raises(UsageError, match=r"study.toml: cards.B200: unknown key 'memory'"):
        study_spec(file, {})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"fp32_tflops": 1}, "bandwidth_gb_per_s, memory_gb, source missing"),
        ({"fp32_tflops": -1}, "fp32_tflops is -1: a number above 0"),
        ({"fp32_tflops": float("nan")}, "a number above 0"),
        ({"memory_gb": "48"}, "memory_gb takes a number, not '48'"),
        ({"memory_gb": True}, "memory_gb takes a number, not True"),
        ({"source": 3}, "source takes a text, not 3"),
        (3, "a table it must be"),
    ],
)
def test_wrong_cards_are_refused(table: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_cards({"X": table}, "file")
    with pytest.raises(UsageError, match="one table per card"):
        read_cards([table], "file")


def test_a_file_of_cards_must_have_some(tmp_path: Path) -> None:
    file = tmp_path / "cards.toml"
    with pytest.raises(UsageError, match="cannot read cards of"):
        cards_of_file(file)
    file.write_text("name = 'x'")
    with pytest.raises(UsageError, match=r"no table \[cards.NAME\]"):
        cards_of_file(file)
    file.write_text("= x")
    with pytest.raises(UsageError, match="not valid TOML"):
        cards_of_file(file)


def test_targets() -> None:
    assert find_target("auto", None).kind == "cpu"
    assert find_target("cpu", None).card is None
    assert find_target("auto", "L40").name == "L40"
    assert find_target("cuda", "L40").kind == "cuda"
    cpu = Card("CPU", 1, 100, 64, "measured")
    assert find_target("cpu", None, [cpu]).card is cpu


@pytest.mark.parametrize(
    ("device", "gpu", "message"),
    [
        ("cuda", None, "say which GPU"),
        ("cpu", "L40", "needs --device cuda or auto"),
        ("mps", None, "--device mps"),
        ("tpu", None, "unknown device 'tpu'"),
    ],
)
def test_targets_that_there_are_not(device: str, gpu: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_target(device, gpu)


@pytest.mark.parametrize(
    ("gpu", "execution", "message"),
    [
        (None, Execution(attention="efficient"), "cpu has auto, math, flash"),
        (None, Execution(tf32=True), "no TF32 on cpu"),
        ("L40", Execution(attention="flash"), "add --autocast bf16 or fp16"),
        ("L40", Execution(compile=True), "--compile"),
        ("T4", Execution(autocast="bf16"), "no bf16 on Tesla T4"),
        ("T4", Execution(tf32=True), "no TF32 on Tesla T4"),
    ],
)
def test_what_a_target_cannot_do_is_refused(
    gpu: str | None, execution: Execution, message: str
) -> None:
    target = find_target("auto", gpu)
    target.check(DEFAULT)
    with pytest.raises(UsageError, match=message):
        target.check(execution)


def test_the_page_has_every_card_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs/prediction.md").read_text()
    for card in CARDS:
        rates = (card.fp32_tflops, card.tf32_tflops, card.bf16_tflops)
        figures = (*rates, card.bandwidth_gb_per_s, card.memory_gb)
        cells = ["none" if figure is None else f"{figure:g}" for figure in figures]
        assert f"| {card.name} | {' | '.join(cells)} |" in page


def test_the_pages_example_is_a_card(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/prediction.md").read_text()
    file = tmp_path / "cards.toml"
    file.write_text(page.partition("```toml\n")[2].partition("```")[0])
    (card,) = cards_of_file(file)
    assert (card.name, card.bf16_tflops) == ("Mine", 160)
