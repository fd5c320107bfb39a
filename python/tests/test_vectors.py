import gzip

import numpy as np
import pytest
import robust_ot


def test_words_in_the_order_asked_for(tmp_path):
    text = "4 2\nsea 1 2\nship 3 4\nnew york 5 6\nsea 9 9\n"
    (tmp_path / "w.vec").write_text(text)
    with gzip.open(tmp_path / "w.vec.gz", "wt") as file:
        file.write(text)
    for path in (tmp_path / "w.vec", str(tmp_path / "w.vec.gz")):
        assert list(robust_ot.read_vec(path)) == ["sea", "ship", "new york"]
        found = robust_ot.read_vec(path, ["new york", "sky", "sea"])
        assert list(found) == ["new york", "sea"]
        np.testing.assert_array_equal(found["sea"], [1.0, 2.0])


def test_files_that_are_not_there_or_not_vectors(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.vec"):
        robust_ot.read_vec(tmp_path / "none.vec")
    (tmp_path / "bad.vec").write_text("sea 1 2\nship 1 x\n")
    with pytest.raises(ValueError, match="bad.vec:2: the vector of 'ship' must be finite numbers, but one is 'x'"):
        robust_ot.read_vec(tmp_path / "bad.vec")
    with pytest.raises((ValueError, OSError), match="folder"):
        robust_ot.read_vec(tmp_path)
