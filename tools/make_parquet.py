"""Write the Parquet files of crates/robust-ot-learn/tests/data: one small table as several programs store it.

Needs pandas, pyarrow, polars and duckdb. The table has a row with gaps; tests know its values.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent.parent / "crates/robust-ot-learn/tests/data"
ROWS = 40


def table(gaps: bool) -> pa.Table:
    at = range(ROWS)
    missing = lambda i: gaps and i % 7 == 3  # noqa: E731
    column = lambda value, kind: pa.array([None if missing(i) else value(i) for i in at], kind)  # noqa: E731
    day = datetime.date(2024, 1, 5)
    return pa.table(
        {
            "x": column(lambda i: i / 4 - 3, pa.float64()),
            "single": column(lambda i: i / 8, pa.float32()),
            "half": column(lambda i: np.float16(i / 2), pa.float16()),
            "count": column(lambda i: i * 1_000_003 - 7, pa.int64()),
            "small": column(lambda i: i - 20, pa.int8()),
            "unsigned": column(lambda i: 4_294_967_295 - i, pa.uint32()),
            "money": column(lambda i: Decimal(i * 7 - 50) / 100, pa.decimal128(20, 2)),
            "yes": column(lambda i: i % 3 == 0, pa.bool_()),
            "name": column(lambda i: ["sea", "ship", "größe"][i % 3], pa.string()),
            "day": column(lambda i: day + datetime.timedelta(i), pa.date32()),
            "time": column(lambda i: datetime.datetime(2024, 1, 5, 12, 30, i), pa.timestamp("us")),
            "list": column(lambda i: [i, i + 1], pa.list_(pa.int64())),
            "nothing": pa.nulls(ROWS),
        }
    )


def main() -> None:
    whole, gaps = table(False), table(True)
    numbers = ["x", "single", "count", "small", "unsigned", "yes", "name", "day"]
    pq.write_table(gaps, FOLDER / "arrow-snappy.parquet", compression="snappy", row_group_size=15)
    pq.write_table(gaps, FOLDER / "arrow-gzip-v2.parquet", compression="gzip", data_page_version="2.0", data_page_size=64)
    pq.write_table(whole, FOLDER / "arrow-plain.parquet", compression="none", use_dictionary=False)
    encodings = {
        "x": "BYTE_STREAM_SPLIT",
        "single": "BYTE_STREAM_SPLIT",
        "count": "DELTA_BINARY_PACKED",
        "small": "DELTA_BINARY_PACKED",
        "unsigned": "DELTA_BINARY_PACKED",
        "yes": "RLE",
        "name": "DELTA_BYTE_ARRAY",
        "day": "DELTA_BINARY_PACKED",
    }
    pq.write_table(
        gaps.select(numbers),
        FOLDER / "arrow-delta.parquet",
        compression="zstd",
        use_dictionary=False,
        column_encoding=encodings,
        version="2.6",
    )
    encodings["name"] = "DELTA_LENGTH_BYTE_ARRAY"
    one = {"use_dictionary": False, "column_encoding": encodings}
    pq.write_table(whole.select(numbers), FOLDER / "arrow-lengths.parquet", compression="none", data_page_version="2.0", **one)
    pq.write_table(whole.select(numbers), FOLDER / "arrow-lz4.parquet", compression="lz4")
    pq.write_table(whole.select(["x", "count"]), FOLDER / "numbers.parquet")
    pq.write_table(whole.select(["name"]), FOLDER / "classes.parquet")
    even, third = (pa.array([i % n == 0 for i in range(ROWS)]) for n in (2, 3))
    pq.write_table(pa.table({"even": even, "third": third}), FOLDER / "indicators.parquet")
    frame = gaps.select(["x", "count", "name"]).to_pandas()
    frame.set_index(pd.Index([f"r{i}" for i in range(ROWS)])).to_parquet(FOLDER / "pandas-index.parquet")
    pl.from_arrow(gaps.select(numbers)).write_parquet(FOLDER / "polars.parquet")
    duckdb.from_arrow(gaps.select(numbers)).write_parquet(str(FOLDER / "duckdb.parquet"))


if __name__ == "__main__":
    main()
