"""What can go wrong, each kind with a type of its own.

Every exception of the package is a `CloisonError`. A `ServiceError` carries what the server said, word for word.
"""

from __future__ import annotations

from typing import Final

import grpc


class CloisonError(Exception):
    """Base of all exceptions of this package."""


class CertificateError(CloisonError):
    """A certificate, key or authority file cannot be used; nothing was sent."""


class IdsError(CloisonError, ValueError):
    """The record ids cannot be sent: none, one twice, or one that is no id. Names positions, never ids."""


class ConnectError(CloisonError):
    """No connection to the party that was meant."""


class UnreachableError(ConnectError):
    """Nobody answers at the address."""


class UntrustedServerError(ConnectError):
    """The server's certificate is not of the deployment's authority, or out of date."""


class WrongServerError(ConnectError):
    """The server is another party than the one that was meant."""


class CertificateRefusedError(ConnectError):
    """The server does not take our certificate: of another authority, out of date, or denied."""


class ProtocolError(CloisonError):
    """The server's answer is not one that the protocol allows."""


class ModelChangedError(CloisonError):
    """Another model was published while records were being scored: score them again."""


class ServiceError(CloisonError):
    """The server refused or failed.

    Attributes:
        message: What the server said.
        code: The gRPC status code by name, such as `INVALID_ARGUMENT`.
    """

    def __init__(self, message: str, code: str) -> None:
        """Keeps the message and the code."""
        super().__init__(message)
        self.message: Final = message
        self.code: Final = code


class InvalidRequestError(ServiceError):
    """The request is malformed or out of range."""


class NotFoundError(ServiceError):
    """The request names something that the server does not have."""


class PermissionDeniedError(ServiceError):
    """Our role, or our party, may not call this."""


class UnauthenticatedError(ServiceError):
    """The server saw no certificate of ours."""


class FailedPreconditionError(ServiceError):
    """The server is not in the state that the request needs, such as a model in service."""


class BudgetSpentError(ServiceError):
    """A budget or a limit of the server is spent."""


class BusyError(ServiceError):
    """Something else of this kind is under way."""


class UnavailableError(ServiceError):
    """The server, or a party behind it, does not answer at the moment."""


class DeadlineExceededError(ServiceError):
    """No answer within the time that was given."""


class InternalError(ServiceError):
    """The server failed, or it answered with a code that has no type of its own here."""


class BinaryNotFoundError(CloisonError):
    """A program of Cloison is not there: name its directory in `CLOISON_BIN`, or put it on `PATH`."""


class CommandError(CloisonError):
    """A program of Cloison ended with an error.

    Attributes:
        exit_code: Its exit code; none if it was ended for want of time.
        stderr: What it wrote to standard error.
    """

    def __init__(self, message: str, exit_code: int | None, stderr: str) -> None:
        """Keeps the exit code and the output."""
        super().__init__(message)
        self.exit_code: Final = exit_code
        self.stderr: Final = stderr


class InputError(CommandError):
    """A program of Cloison did not take its input: a configuration, a case or a setting (exit code 2)."""


class FrameError(CloisonError, ValueError):
    """A data frame, or a classifier of scikit-learn or a step before it, is not taken."""


class RecordsNotScoredError(CloisonError):
    """Some records of an estimator's frame were not scored; the message counts them by status."""


class ReportError(CloisonError, ValueError):
    """A file is no report of a version that this package reads."""


_BY_CODE: Final[dict[grpc.StatusCode, type[ServiceError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPreconditionError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: BudgetSpentError,
    grpc.StatusCode.ABORTED: BusyError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
}


def of_status(code: grpc.StatusCode, message: str) -> ServiceError:
    """The exception for a status code and the server's message."""
    return _BY_CODE.get(code, InternalError)(message, code.name)
