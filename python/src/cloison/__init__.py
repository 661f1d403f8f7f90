"""Client of Cloison: predictions of a vertically federated model, audits of what they leak, and their reports as data frames."""

from __future__ import annotations

from ._attack import Reconstruction, attack, case
from ._audit import audit
from ._tables import save_model, try_table
from .errors import (
    BinaryNotFoundError,
    BudgetSpentError,
    BusyError,
    CertificateError,
    CertificateRefusedError,
    CloisonError,
    CommandError,
    ConnectError,
    DeadlineExceededError,
    FailedPreconditionError,
    FrameError,
    IdsError,
    InputError,
    InternalError,
    InvalidRequestError,
    ModelChangedError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    RecordsNotScoredError,
    ReportError,
    ServiceError,
    UnauthenticatedError,
    UnavailableError,
    UnreachableError,
    UntrustedServerError,
    WrongServerError,
)
from .model import Model, PassivePart, Privacy, Progress, Published, TrainingConfig
from .party import ActiveParty
from .report import Report, Verdict, load_report

__version__ = "0.1.0"

__all__ = [
    "ActiveParty",
    "BinaryNotFoundError",
    "BudgetSpentError",
    "BusyError",
    "CertificateError",
    "CertificateRefusedError",
    "CloisonError",
    "CommandError",
    "ConnectError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "FrameError",
    "IdsError",
    "InputError",
    "InternalError",
    "InvalidRequestError",
    "Model",
    "ModelChangedError",
    "NotFoundError",
    "PassivePart",
    "PermissionDeniedError",
    "Privacy",
    "Progress",
    "ProtocolError",
    "Published",
    "Reconstruction",
    "RecordsNotScoredError",
    "Report",
    "ReportError",
    "ServiceError",
    "TrainingConfig",
    "UnauthenticatedError",
    "UnavailableError",
    "UnreachableError",
    "UntrustedServerError",
    "Verdict",
    "WrongServerError",
    "attack",
    "audit",
    "case",
    "load_report",
    "save_model",
    "try_table",
]
