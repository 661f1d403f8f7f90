"""Status codes and exceptions."""

from __future__ import annotations

import grpc
import pytest

import cloison
from cloison.errors import of_status

EXPECTED = {
    "INVALID_ARGUMENT": cloison.InvalidRequestError,
    "OUT_OF_RANGE": cloison.InvalidRequestError,
    "NOT_FOUND": cloison.NotFoundError,
    "PERMISSION_DENIED": cloison.PermissionDeniedError,
    "UNAUTHENTICATED": cloison.UnauthenticatedError,
    "FAILED_PRECONDITION": cloison.FailedPreconditionError,
    "RESOURCE_EXHAUSTED": cloison.BudgetSpentError,
    "ABORTED": cloison.BusyError,
    "UNAVAILABLE": cloison.UnavailableError,
    "DEADLINE_EXCEEDED": cloison.DeadlineExceededError,
}


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_code_has_a_type_and_keeps_the_message(code: grpc.StatusCode) -> None:
    error = of_status(code, "what the server said")
    assert type(error) is EXPECTED.get(code.name, cloison.InternalError)
    assert isinstance(error, cloison.CloisonError)
    assert (str(error), error.message, error.code) == ("what the server said", "what the server said", code.name)
