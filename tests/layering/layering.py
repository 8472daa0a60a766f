#!/usr/bin/env python3
"""Checks that every #include points down the layers.

usage: layering.py ROOT

Rules are the table below; quoted includes are paths from the root of the tree. Prints each offence and exits 1.
"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "kernels": {"kernels"},
    "tensor": {"kernels", "tensor"},
    "autograd": {"kernels", "tensor", "autograd"},
    "nn": {"kernels", "tensor", "autograd", "nn"},
    "optim": {"kernels", "tensor", "autograd", "optim"},
    "data": {"kernels", "tensor", "data"},
    "distributed": {"kernels", "tensor", "autograd", "nn", "optim", "data", "distributed"},
}
# Programs stand above the layers and may use them all; "weft" is the folder of the one public header.
ABOVE = {"cli", "examples", "benchmarks", "tests", "weft"}

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".def"}


def offences(root: pathlib.Path):
    for folder, allowed in MAY_INCLUDE.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                found = INCLUDE.match(line)
                if not found or "/" not in found[1]:
                    continue
                target = found[1].split("/")[0]
                if target in (MAY_INCLUDE.keys() | ABOVE) and target not in allowed:
                    yield f"{path.relative_to(root)}:{number}: {folder}/ may not include {found[1]}"


def main():
    root = pathlib.Path(sys.argv[1])
    found = list(offences(root))
    for offence in found:
        print(offence)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
