#!/usr/bin/env python3
"""Makes shared/stores/tests/data/*.parquet with Apache Arrow's own writer (pip install pyarrow), for the test of our reader.

The same twelve records each time: with dictionaries and without, data pages of both versions, Snappy, Zstandard, gzip and none, small row groups.
"""
import decimal
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).resolve().parent.parent.parent / "shared/stores/tests/data"
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
