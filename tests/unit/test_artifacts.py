"""Files are replaced as a whole or stay as they were."""

import hashlib

import pytest

from diar.artifacts import file_sha256, replacing


def test_a_file_is_replaced_on_leaving(tmp_path):
    path = tmp_path / "new" / "model.onnx"
    with replacing(path) as draft:
        assert draft.suffix == ".onnx"
        draft.write_bytes(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]
    assert file_sha256(path) == hashlib.sha256(b"new").hexdigest()


def test_a_failure_keeps_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")

    def fail_halfway():
        with replacing(path) as draft:
            draft.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
