#!/usr/bin/env python3
"""Writes the results of tools/gpu/check.sh into docs/performance.md.

usage: report.py RESULTS.json [docs/performance.md]

Everything between the two marks in the document is replaced; without them a section is added at the end.
"""
import json
import pathlib
import sys

BEGIN, END = "<!-- tools/gpu/report.py writes from here -->", "<!-- to here -->"


def checks(results):
    yield "| check | result | seconds |"
    yield "|---|---|---|"
    for name, entry in results.items():
        if isinstance(entry, dict) and "status" in entry and "seconds" in entry:
            verdict = "passed" if entry["status"] == 0 else f"failed: {entry['last_line']}"
            yield f"| {name.replace('_', ' ')} | {verdict} | {entry['seconds']} |"


def training(results):
    yield "| model | dtype | batch | ms a step | TFLOP/s | share of the matrix product | PyTorch ms | PyTorch ÷ ours |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, entry in results.items():
        if not name.startswith("train ") or "median_ms" not in entry:
            continue
        other = results.get("torch " + name, {}).get("median_ms")
        theirs = f"{other:.2f} | {other / entry['median_ms']:.2f}" if other else "| "
        yield (f"| {entry['model']} | {entry['dtype']} | {entry['batch']} | {entry['median_ms']:.2f} "
               f"| {entry['gflop_per_s'] / 1e3:.1f} | {100 * entry['share_of_limit']:.0f} % | {theirs} |")


def operations(results):
    rows = results.get("ops")
    if not isinstance(rows, list):
        return
    others = results.get("torch ops")
    theirs = {(row["op"], row["dtype"]): row["ms"] for row in others} if isinstance(others, list) else {}
    yield "| operation | dtype | ms | rate | share of peak | PyTorch ms | PyTorch ÷ ours |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        other = theirs.get((row["op"], row["dtype"]))
        pair = f"{other:.3f} | {other / row['ms']:.2f}" if other else "| "
        yield (f"| {row['op']} | {row['dtype']} | {row['ms']:.3f} | {row['rate']:,.0f} {row['unit']} "
               f"| {100 * row['share_of_peak']:.0f} % | {pair} |")


def section(results):
    yield BEGIN
    yield ""
    yield f"Taken on {results.get('date', 'an unknown day')} by `tools/gpu/check.sh` on: {results.get('device', '?')}."
    yield "Peaks are measured in the same run: a large copy (read and written bytes count), a large matrix product of the"
    yield "same type. PyTorch is eager, in the same minutes. Medians."
    for part in (checks, training, operations):
        yield ""
        yield from part(results)
    yield ""
    yield END


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    results = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    document = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else "docs/performance.md")
    text = document.read_text(encoding="utf-8")
    written = "\n".join(section(results))
    if BEGIN in text:
        before, rest = text.split(BEGIN, 1)
        text = before + written + rest.split(END, 1)[1]
    else:
        text = text.rstrip("\n") + "\n\n## On a GPU\n\n" + written + "\n"
    document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
