#!/usr/bin/env python3
"""Makes shared/features/tests/data/*.parquet with Apache Arrow's own writer (pip install pyarrow), for the test of our reader.

The same twelve records each time: with dictionaries and without, data pages of both versions, Snappy, Zstandard, gzip and none, small row groups.
"""
import decimal
import pathlib
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).resolve().parent.parent.parent / "shared/features/tests/data"
N = 12
table = pa.table(
    {
        "id": pa.array([f"k{i}" for i in range(N)]),
        "number": pa.array(range(100, 100 + N), pa.int64()),
        "small": pa.array([i % 5 for i in range(N)], pa.uint8()),
        "single": pa.array([i / 8 for i in range(N)], pa.float32()),
        "double": pa.array([i / 7 for i in range(N)], pa.float64()),
        "price": pa.array([decimal.Decimal(i) / 4 for i in range(N)], pa.decimal128(12, 2)),
        "truth": pa.array([i % 3 == 0 for i in range(N)]),
        "text": pa.array([["ä b", "c,d", ""][i % 3] for i in range(N)]),
        "wide": pa.array([["x", "y"][i % 2] for i in range(N)], pa.large_string()),
        "coded": pa.array([["p", "q", "r"][i % 3] for i in range(N)]).dictionary_encode(),
        "when": pa.array([1000 * i for i in range(N)], pa.timestamp("ms")),
        "list": pa.array([[1, 2]] * N),
        "gap": pa.array([None if i == 7 else float(i) for i in range(N)]),
    }
)
OUT.mkdir(parents=True, exist_ok=True)
pq.write_table(table, OUT / "plain.parquet", compression="none", use_dictionary=False, row_group_size=5)
pq.write_table(table, OUT / "snappy.parquet", compression="snappy", data_page_version="1.0")
pq.write_table(table, OUT / "pages-v2.parquet", compression="snappy", data_page_version="2.0", data_page_size=64)
pq.write_table(table, OUT / "zstd.parquet", compression="zstd")
pq.write_table(table, OUT / "gzip.parquet", compression="gzip")

# Record ids of every type that exports have, three records each: `x` is a feature.
D = decimal.Decimal
ids = pa.table(
    {
        "dec9": pa.array([D(1001), D(-7), D(0)], pa.decimal128(9, 0)),
        "dec18": pa.array([D(1001), D(-7), D(0)], pa.decimal128(18, 0)),
        "dec38": pa.array([D(10) ** 37, D(-7), D(0)], pa.decimal128(38, 0)),
        "dec76": pa.array([D(10) ** 70, D(-7), D(0)], pa.decimal256(76, 0)),
        "cents": pa.array([D("1001.00"), D("-0.50"), D("0.05")], pa.decimal128(10, 2)),
        "i8": pa.array([127, -7, 0], pa.int8()),
        "u8": pa.array([255, 7, 0], pa.uint8()),
        "u32": pa.array([2**32 - 1, 7, 0], pa.uint32()),
        "i64": pa.array([2**63 - 1, -(2**63), 0], pa.int64()),
        "u64": pa.array([2**64 - 1, 2**63, 7], pa.uint64()),
        "f32": pa.array([1001, -7, 0.5], pa.float32()),
        "f64": pa.array([1001, -7, 0.5], pa.float64()),
        "nan": pa.array([1001, float("nan"), 0.5], pa.float64()),
        "text": pa.array(["1001", "007", "é"]),
        "large": pa.array(["1001", "007", "é"], pa.large_string()),
        "coded": pa.array(["1001", "007", "é"]).dictionary_encode(),
        "binary": pa.array([b"1001", b"007", "é".encode()], pa.binary()),
        "fixed": pa.array([b"1001", b"0007", b"abcd"], pa.binary(4)),
        "raw": pa.array([b"\xff\xfe", b"\x00a", b"b"], pa.binary()),
        "uuid": pa.array([uuid.UUID(int=i).bytes for i in (1, 2**128 - 1, int.from_bytes(b"abcdefghijklmnop", "big"))], pa.uuid()),
        "date": pa.array([1, 2, 3], pa.date32()),
        "x": pa.array([0.25, 0.5, 0.75]),
    }
)
pq.write_table(ids, OUT / "ids.parquet", compression="none")
