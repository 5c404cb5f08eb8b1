"""What the pictures in docs/ show: a conversation that has everything a report can show."""

import pytest

from diar.tools import screenshots


def test_conversation_has_overlaps_and_unsure_turns():
    result, sound = screenshots.conversation()
    assert len(sound) == result.num_samples
    assert any(turn.end > after.start for turn, after in zip(result.turns, result.turns[1:], strict=False))
    assert min(turn.confidence for turn in result.turns) < 0.5
    assert {speaker.label for speaker in result.speakers} == set(screenshots.NAMES)
    assert result.speakers[0].label == result.turns[0].speaker


def test_missing_browser_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(screenshots.shutil, "which", lambda name: None)
    assert screenshots.main([str(tmp_path)]) == 1
    assert "apt install chromium" in capsys.readouterr().err


def test_missing_folder_is_said(tmp_path, capsys):
    assert screenshots.main([str(tmp_path / "nowhere"), "--chromium", "chromium"]) == 1
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["report_light", "report_dark", "report_phone", "report_picture"])
def test_pictures_in_the_documents_are_small(name):
    path = screenshots.Path(__file__).parents[2] / "docs" / f"{name}.png"
    assert 5_000 < path.stat().st_size < 80_000
