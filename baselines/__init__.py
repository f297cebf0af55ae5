"""The methods that BARTER is compared with, one file each, on `methods`' interface."""
