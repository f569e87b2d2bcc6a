#!/usr/bin/env python3
"""Fits hwprofiles/kernels/collectives_constants.csv to the measured tables beside it.

Usage: collective_constants.py > hwprofiles/kernels/collectives_constants.csv
Same tables, same constants, byte for byte: coordinate descent on the mean of |log(model/measured)|,
each row's part cut at 0.5, over 32 KiB to 1 GiB; of NVLS also over larger all-reduces on one node,
without which its rate and the cost of pieces are not told apart. The form is that of
planner/cost/collective_time.h; a change there needs one here. No step time enters.
"""
import csv
import math
import os
import sys

TABLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../hwprofiles/kernels")
LEAST, MOST = 32 << 10, 1 << 30
# Family, capacity of a peer link per direction (GB/s; of PCIe x16 where there is none), tables.
FAMILIES = [
    ("a100_sxm", 300, ["a100_sxm"]),
    ("h100_sxm", 450, ["h100_sxm", "h200_sxm"]),
    ("b200_sxm", 900, ["b200_sxm", "b300_sxm", "gb200", "gb300"]),
    ("l40s", 31, ["l40s"]),
    ("rtx_pro_6000_server", 63, ["rtx_pro_6000_server"]),
]
NAMES = ["low_base_us", "low_hop_us", "low_share", "base_us", "hop_us", "rate_2_gb_s", "rate_4_gb_s",
         "rate_8_gb_s", "own", "own_all_reduce", "root", "nvls_base_us", "nvls_gb_s", "nvls_root"]
NVLS_CHANNELS = {"h100_sxm": 16, "b200_sxm": 32}  # over nodes [NCCL src/transport/nvls.cc], not fitted
PAIR_NAMES = ["pair_low_base_us", "pair_low_share", "pair_base_us", "pair_rate_2_gb_s",
              "pair_rate_4_gb_s", "pair_rate_8_gb_s", "pair_own", "pair_root"]
GROUPS = (2, 4, 8)
PCIE = ("l40s", "rtx_pro_6000_server")
NVLS_ROOT_STEP, NVLS_ROOT_STEPS = 0.25, 17  # us^0.5: 0 to 4
SWITCHED = ("h100_sxm", "b200_sxm")  # whose switches add up (NVLS)
# [Bang24] all-reduce on 8 V100, bytes and us, of other software than the tables: rate alone.
V100 = [(1 << 28, 3527.4), (1 << 29, 7004.4), (1 << 30, 13969.0)]


def version(source):
    """Highest version first; '@' names an older library that ran instead."""
    number = source.removeprefix("nccl-").split("@")[0]
    return [int(part) for part in number.split(".")], "@" not in source


def rows_of(table):
    with open(os.path.join(TABLES, f"collectives_{table}.csv")) as file:
        rows = list(csv.DictReader(file))
    newest = max({row["source"] for row in rows}, key=version)
    for row in rows:
        size = int(row["bytes"])
        ring_only = row["dtype"] == "int8"
        if row["source"] != newest or not LEAST <= size <= MOST:
            continue
        if ring_only and row["op"] != "all_reduce":
            continue
        yield row["op"], size, int(row["gpus"]), not ring_only, float(row["time_us"])


def large_rows_of(device):
    """All-reduces on one node of 8, larger than those of the tables."""
    with open(os.path.join(TABLES, "collectives_multinode_mlengineering.csv")) as file:
        for row in csv.DictReader(file):
            if row["device"] == device and row["nodes"] == "1" and int(row["bytes"]) >= MOST:
                yield "all_reduce", int(row["bytes"]), int(row["gpus"]), True, float(row["time_us"])


def model(p, op, size, n, nvls):
    reduces_all = op == "all_reduce"
    hops = (2 if reduces_all else 1) * (n - 1)
    parts = (hops + (p[9] if reduces_all else p[8])) / n
    rate = p[5 + {2: 0, 4: 1, 8: 2}[n]] * 1e3  # bytes per us
    moved = size * parts / rate
    low = p[0] + p[1] * hops + moved / p[2]
    simple = p[3] + p[4] * hops + moved + p[10] * math.sqrt(moved)
    best = min(low, simple)
    if nvls and reduces_all and n == 8 and p[12] > 0:
        moved = size / (p[12] * 1e3)
        best = min(best, p[11] + moved + p[13] * math.sqrt(n * moved))
    return best


def pair_model(p, _, size, n, __):
    moved = size * (n - 1 + p[6]) / n / (p[3 + {2: 0, 4: 1, 8: 2}[n]] * 1e3)
    return min(p[0] + moved / p[1], p[2] + moved + p[7] * math.sqrt(moved))


def loss(p, rows, form):
    return sum(min(0.5, abs(math.log(form(p, *row[:4]) / row[4]))) for row in rows) / len(rows)


def scaled(p, columns, factor):
    return [value * factor if i in columns else value for i, value in enumerate(p)]


def fit(rows, start, free, form=model):
    """`free`: sets of columns that are scaled together."""
    p, best, step = list(start), loss(start, rows, form), 0.3
    while step > 0.004:
        better = False
        for columns in free:
            for factor in (1 + step, 1 / (1 + step)):
                trial = scaled(p, columns, factor)
                value = loss(trial, rows, form)
                if value < best - 1e-9:
                    p, best, better = trial, value, True
        if not better:
            step *= 0.6
    return p


def first_rates(rows):
    """Of the largest all-gather of each group."""
    largest = {n: max((r for r in rows if r[0] == "all_gather" and r[2] == n), default=None,
                      key=lambda r: r[1]) for n in GROUPS}
    return [r[1] * (r[2] - 0.5) / r[2] / r[4] / 1e3 for r in largest.values()]


def fit_nvls(rows, p):
    """The cost of pieces is scanned: single steps do not get past what start and rate take over."""
    of_eight = [row for row in rows if row[0] == "all_reduce" and row[2] == 8 and row[3]]
    scanned = [p[:13] + [NVLS_ROOT_STEP * i] for i in range(NVLS_ROOT_STEPS)]
    fitted = [fit(of_eight, one, [{11}, {12}]) for one in scanned]
    return min(fitted, key=lambda one: loss(one, of_eight, model))


def fit_pairs(rows, rates, pcie):
    """All-to-alls have constants of their own, which share nothing with rings."""
    start = [10, 0.5, 15] + rates + [0.5, 1]
    columns = [{3}, {4}, {5}] if pcie else [{3, 4, 5}]
    return fit(rows, start, [{i} for i in (0, 1, 2, 6, 7)] + columns, pair_model)


def print_row(family, link, p, source):
    shown = [f"{v:.4g}" if v > 1e-3 else "0" for v in p]
    shown.insert(len(NAMES), str(NVLS_CHANNELS.get(family, 0)))
    print(",".join([family, str(link)] + shown + [source]))


def print_errors(p, pairs, table):
    for op in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"):
        form, constants = (pair_model, pairs) if op == "all_to_all" else (model, p)
        errors = sorted(abs(form(constants, *row[:4]) / row[4] - 1)
                        for row in rows_of(table) if row[3] and row[0] == op)
        print(f"{table} {op}: median {100 * errors[len(errors) // 2]:.1f} %", file=sys.stderr)


def main():
    print("family,link_gb_s," + ",".join(NAMES + ["nvls_channels"] + PAIR_NAMES) + ",source")
    for family, link, tables in FAMILIES:
        all_rows = [row for table in tables for row in rows_of(table)]
        rows = [row for row in all_rows if row[0] != "all_to_all"]
        rates = first_rates(rows)
        nvls = [70, 0.6 * link, 0] if family in SWITCHED else [0, 0, 0]
        pcie = family in PCIE
        start = [10, 1, 0.5, 30, 1] + (rates if pcie else rates[2:] * 3) + [0.5, 0.2, 3] + nvls
        free = [{i} for i in (0, 1, 2, 3, 4, 8, 9, 10)]
        free += [{5}, {6}, {7}] if pcie else [{5, 6, 7}]
        free += [{11}, {12}] if family in SWITCHED else []
        p = fit(rows, start, free)
        if family in SWITCHED:
            p = fit_nvls(rows + [row for table in tables for row in large_rows_of(table)], p)
        pairs = fit_pairs([row for row in all_rows if row[0] == "all_to_all"], start[5:8], pcie)
        print_row(family, link, p + pairs, "fitted to " + " ".join(tables))
        for table in tables:
            print_errors(p, pairs, table)
        if family == "a100_sxm":
            rows = [("all_reduce", size, 8, False, time) for size, time in V100]
            slower = fit(rows, scaled(p, {5, 6, 7}, 0.5), [{5, 6, 7}])
            pairs = scaled(pairs, {3, 4, 5}, slower[5] / p[5])
            print_row("v100_sxm", 150, slower + pairs, "as a100_sxm; rates fitted to [Bang24]")


main()
