"""Single blocks on one ``diar_nn_g<i>``: the networks' own outputs."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from diar.audio import check_samples
from diar.errors import InvalidAudio
from diar.pipeline import BlockResult
from diar.profile import Profile
from diar.tensors import SPAN
from diar_client.nets import run_block
from diar_client.retry import PATIENT, Deadline, Patience, persist
from diar_client.served import ask, find_nn_models, learn
from diar_client.session import AsyncSession, Session


class _AsyncBlockClient(AsyncSession):
    def __init__(
        self,
        model: str | None,
        url: str,
        api_key: str | None,
        ca: str | os.PathLike[str] | None,
        certificate: str | os.PathLike[str] | None,
        timeout_s: float | None,
        patience: Patience,
    ) -> None:
        super().__init__(
            url, api_key=api_key, ca=ca, certificate=certificate, timeout_s=timeout_s, patience=patience
        )
        self._wanted = model
        self.found: tuple[str, Profile] | None = None

    async def find(self, deadline: Deadline | None = None) -> tuple[str, Profile]:
        async def look() -> tuple[str, Profile]:
            model = self._wanted or (await find_nn_models(self._connection))[0]
            return model, (await learn(self._connection, model)).profile

        if self.found is None:
            deadline = deadline or Deadline(self._timeout_s)
            self.found = await ask(self._connection, look, deadline, self._patience)
        return self.found

    async def run(self, span: npt.NDArray[np.float32]) -> BlockResult:
        deadline = Deadline(self._timeout_s)
        model, _ = await self.find(deadline)
        return await persist(
            lambda left_s: run_block(self._connection, model, span, left_s),
            deadline,
            self._patience,
            self.url,
        )


class BlockClient(Session[_AsyncBlockClient]):
    """Runs single blocks on one ``diar_nn_g<i>``. See ``AsyncSession`` for the other parameters.

    model: its name; None takes the first that is ready.
    """

    def __init__(
        self,
        url: str = "grpc://127.0.0.1:8001",
        *,
        model: str | None = None,
        api_key: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        timeout_s: float | None = 600.0,
        patience: Patience = PATIENT,
    ) -> None:
        super().__init__(_AsyncBlockClient(model, url, api_key, ca, certificate, timeout_s, patience))

    @property
    def profile(self) -> Profile:
        """What the model serves, asked once. Raises ServerRefused, ServerUnreachable."""
        found = self._inner.found or self.run_async(self._inner.find())
        return found[1]

    def run(self, span: npt.NDArray[np.float32]) -> BlockResult:
        """Run one block.

        span: (samples,) float32 in [-1, 1], ``window + (n - 1) * hop`` long for a block of n windows.

        Raises InvalidAudio for another length or type; Overloaded, NetsUnavailable, ServerUnreachable after
        retries; ServerRefused; Cancelled when ``timeout_s`` is over.
        """
        if span.dtype != np.float32:
            raise InvalidAudio("E_SPAN_DTYPE", f"{SPAN}: got {span.dtype}, expected float32")
        check_samples(span, what=SPAN)
        return self.run_async(self._inner.run(span))
