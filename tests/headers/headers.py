#!/usr/bin/env python3
"""Checks that each installed header compiles on its own, needs only installed ones, and names nothing of CUDA.

usage: headers.py BUILD_FOLDER COMPILER…

The list of headers is what Meson would install; they are laid out in a temporary folder as an installation has them.
A pass is remembered in the build folder until a header changes.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CUDA_NAME = re.compile(r"\b(cuda[A-Z_]\w*|cu(blas|dnn|rand|sparse)\w*|nccl\w+|__global__|__device__|dim3)\b")


def installed_headers(build: pathlib.Path):
    plan = json.loads((build / "meson-info" / "intro-install_plan.json").read_text())
    for source, entry in plan["headers"].items():
        yield pathlib.Path(source), entry["destination"].replace("{includedir}/", "")


def main():
    build, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
    failures = []
    digest = hashlib.sha256(" ".join(compiler).encode())
    for source in [*(source for source, _ in installed_headers(build)), pathlib.Path(__file__)]:
        digest.update(f"{source}\n".encode() + source.read_bytes())
    passed = build / "tests" / "headers" / "passed"
    if passed.exists() and passed.read_text() == digest.hexdigest():
        print("no header has changed since they all passed")
        return
    with tempfile.TemporaryDirectory() as folder:
        headers = []
        for source, destination in installed_headers(build):
            target = pathlib.Path(folder) / destination
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            if source.suffix == ".h":
                headers.append(destination)
            for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
                if CUDA_NAME.search(line.split("//")[0]):
                    failures.append(f"{source}:{number}: an installed header names CUDA: {line.strip()}")

        def compile_alone(header):
            command = [*compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++",
                       f"-I{folder}", f"-I{folder}/weft", "-include", header, os.devnull]
            return subprocess.run(command, capture_output=True, text=True)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for header, result in zip(headers, pool.map(compile_alone, headers)):
                if result.returncode:
                    failures.append(f"{header} does not compile alone:\n{result.stderr}")
    print("\n".join(failures) or f"{len(headers)} headers compile alone")
    if failures:
        sys.exit(1)
    passed.parent.mkdir(parents=True, exist_ok=True)
    passed.write_text(digest.hexdigest())


if __name__ == "__main__":
    main()
