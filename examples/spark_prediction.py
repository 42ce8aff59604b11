"""
Prediction on Spark
===================

A model that was trained anywhere labels the rows of a Spark table.

In this example, a model that was trained elsewhere labels the groups of a Spark table. Spark passes
a partition in batches of rows, and the last group of a batch may continue in the next batch.
Therefore, the function keeps the rows of this group until the group is complete. Run the script
with Python after ``pip install pyspark treecrf``, or paste the function into a notebook.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnail_spark.svg"

# Begin
from collections.abc import Iterator

import pandas as pd


def predict_table(table, crf, group, order_by, schema):
    """Return a Spark table with the column ``predicted``, partitioned by group.

    ``schema`` describes the result.
    """
    model = table.sparkSession.sparkContext.broadcast(crf)

    def labeled(rows: pd.DataFrame) -> pd.DataFrame:
        labels = model.value.predict(rows.drop(columns=order_by), groups=group)
        rows = rows.assign(predicted=labels)
        # Spark does not accept columns of the string type of pandas 3 from several batches.
        strings = rows.select_dtypes("string").columns
        return rows.astype(dict.fromkeys(strings, object))

    def predict(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        rest = None
        for batch in batches:
            rows = batch if rest is None else pd.concat([rest, batch])
            is_last = rows[group] == rows[group].iloc[-1]
            rest = rows[is_last]
            if not is_last.all():
                yield labeled(rows[~is_last])
        if rest is not None:
            yield labeled(rest)

    table = table.repartition(group).sortWithinPartitions(group, order_by)
    return table.mapInPandas(predict, schema)


# End

if __name__ == "__main__":
    import numpy as np
    from pyspark.sql import SparkSession

    from treecrf import TreeCRF

    rng = np.random.default_rng(0)
    days, minutes = 50, 40
    light = rng.normal(size=days * minutes).round(3)
    rows = pd.DataFrame(
        {
            "day": np.repeat(np.arange(days), minutes),
            "minute": np.tile(np.arange(minutes), days),
            "light": light,
            "state": np.where(light + rng.normal(size=len(light)) > 0, "day", "night"),
        }
    )
    crf = TreeCRF(window=1, max_iter=10, early_stopping=False)
    crf.fit(rows.drop(columns="minute"), "state", groups="day")
    expected = crf.predict(rows.drop(columns="minute"), groups="day")

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
    # Small batches, so that groups extend over several of them.
    spark = spark.config("spark.sql.execution.arrow.maxRecordsPerBatch", 7).getOrCreate()
    shuffled = spark.createDataFrame(rows.sample(frac=1, random_state=0))
    schema = "day long, minute long, light double, state string, predicted string"
    found = predict_table(shuffled, crf, "day", "minute", schema).toPandas()
    found = found.sort_values(["day", "minute"])
    print(found.head())
    assert found["predicted"].tolist() == expected.tolist()
    print("Spark and pandas give the same labels.")
    spark.stop()
