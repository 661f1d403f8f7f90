from . import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PrivateReleaseReply(_message.Message):
    __slots__ = ("open", "consent", "request", "held", "piece")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    open: PrivateReleaseOpening
    consent: PrivateReleaseConsent
    request: PrivateReleaseRequest
    held: RowsHeld
    piece: _common_pb2.ComputationPiece
    def __init__(self, open: _Optional[_Union[PrivateReleaseOpening, _Mapping]] = ..., consent: _Optional[_Union[PrivateReleaseConsent, _Mapping]] = ..., request: _Optional[_Union[PrivateReleaseRequest, _Mapping]] = ..., held: _Optional[_Union[RowsHeld, _Mapping]] = ..., piece: _Optional[_Union[_common_pb2.ComputationPiece, _Mapping]] = ...) -> None: ...

class PrivateReleaseCommand(_message.Message):
    __slots__ = ("begin", "look_up", "compute", "piece", "refused")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    LOOK_UP_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    begin: PrivateReleaseSession
    look_up: RowsLookUp
    compute: ReleaseComputation
    piece: _common_pb2.ComputationPiece
    refused: RequestRefused
    def __init__(self, begin: _Optional[_Union[PrivateReleaseSession, _Mapping]] = ..., look_up: _Optional[_Union[RowsLookUp, _Mapping]] = ..., compute: _Optional[_Union[ReleaseComputation, _Mapping]] = ..., piece: _Optional[_Union[_common_pb2.ComputationPiece, _Mapping]] = ..., refused: _Optional[_Union[RequestRefused, _Mapping]] = ...) -> None: ...

class PrivateReleaseOpening(_message.Message):
    __slots__ = ("model_version", "audit_session")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    AUDIT_SESSION_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    audit_session: str
    def __init__(self, model_version: _Optional[str] = ..., audit_session: _Optional[str] = ...) -> None: ...

class PrivateReleaseConsent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PrivateReleaseSession(_message.Message):
    __slots__ = ("session", "model_version", "active_party", "layout", "classes", "policy", "vectors", "passive_fingerprint", "link", "unit")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_PARTY_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    PASSIVE_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    model_version: str
    active_party: str
    layout: _common_pb2.ComputationLayout
    classes: int
    policy: _common_pb2.Policy
    vectors: _containers.RepeatedScalarFieldContainer[float]
    passive_fingerprint: str
    link: str
    unit: float
    def __init__(self, session: _Optional[bytes] = ..., model_version: _Optional[str] = ..., active_party: _Optional[str] = ..., layout: _Optional[_Union[_common_pb2.ComputationLayout, _Mapping]] = ..., classes: _Optional[int] = ..., policy: _Optional[_Union[_common_pb2.Policy, _Mapping]] = ..., vectors: _Optional[_Iterable[float]] = ..., passive_fingerprint: _Optional[str] = ..., link: _Optional[str] = ..., unit: _Optional[float] = ...) -> None: ...

class PrivateReleaseRequest(_message.Message):
    __slots__ = ("number", "ids", "masked_logits", "request_id")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    MASKED_LOGITS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    number: int
    ids: _common_pb2.RecordIds
    masked_logits: bytes
    request_id: str
    def __init__(self, number: _Optional[int] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., masked_logits: _Optional[bytes] = ..., request_id: _Optional[str] = ...) -> None: ...

class RowsLookUp(_message.Message):
    __slots__ = ("number", "ids", "tags")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    number: int
    ids: _common_pb2.RecordIds
    tags: bytes
    def __init__(self, number: _Optional[int] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., tags: _Optional[bytes] = ...) -> None: ...

class RowsHeld(_message.Message):
    __slots__ = ("number", "row_status", "refused")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROW_STATUS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    number: int
    row_status: _containers.RepeatedScalarFieldContainer[_common_pb2.RowStatus]
    refused: _common_pb2.ShareRefusal
    def __init__(self, number: _Optional[int] = ..., row_status: _Optional[_Iterable[_Union[_common_pb2.RowStatus, str]]] = ..., refused: _Optional[_Union[_common_pb2.ShareRefusal, _Mapping]] = ...) -> None: ...

class ReleaseComputation(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[RequestRows]
    def __init__(self, requests: _Optional[_Iterable[_Union[RequestRows, _Mapping]]] = ...) -> None: ...

class RequestRows(_message.Message):
    __slots__ = ("number", "row_status")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROW_STATUS_FIELD_NUMBER: _ClassVar[int]
    number: int
    row_status: _containers.RepeatedScalarFieldContainer[_common_pb2.RowStatus]
    def __init__(self, number: _Optional[int] = ..., row_status: _Optional[_Iterable[_Union[_common_pb2.RowStatus, str]]] = ...) -> None: ...

class RequestRefused(_message.Message):
    __slots__ = ("number", "reason")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    number: int
    reason: _common_pb2.ShareRefusal
    def __init__(self, number: _Optional[int] = ..., reason: _Optional[_Union[_common_pb2.ShareRefusal, _Mapping]] = ...) -> None: ...
