"""The committed repository with scripted networks in the place of the real ones: loads in no time."""

import shutil
from pathlib import Path

from live import ROOT

MODEL = Path(__file__).parent / "repositories" / "scripted" / "model.py"


def scripted_repository(folder, replicas=1, block_s=0.0, only=("diarize",), **parameters):
    """Make one in ``folder``. only: models beside the diar_nn. parameters: other values for diarize's."""
    (folder / "engines").symlink_to(ROOT / "engines")
    repository = folder / "model_repository"
    names = [f"diar_nn_g{index}" for index in range(replicas)]
    for name in names:
        shutil.copytree(ROOT / "model_repository" / "diar_nn_g0", repository / name)
        shutil.copyfile(MODEL, repository / name / "1" / "model.py")
        hundredths = f'"threads" value {{ string_value: "{round(100 * block_s)}"'
        edit(
            repository / name,
            ('"diar_nn_g0"', f'"{name}"'),
            ('"threads" value { string_value: "0"', hundredths),
        )
    for name in only:
        shutil.copytree(ROOT / "model_repository" / name, repository / name)
        edit(repository / name, ('"diar_nn_g0"', f'"{", ".join(names)}"'))
    for key, value in parameters.items():
        file = repository / "diarize" / "configs" / "cpu.pbtxt"
        line = next(line for line in file.read_text().splitlines() if f'key: "{key}"' in line)
        edit(
            repository / "diarize",
            (line, f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'),
        )
    return repository


def edit(model_folder, *changes):
    """Replace, in the model's CPU configuration, what occurs there once."""
    file = model_folder / "configs" / "cpu.pbtxt"
    text = file.read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"expected exactly one {old!r} in {file}"
        text = text.replace(old, new)
    file.write_text(text)
