from . import common_pb2 as _common_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AlignmentFrame(_message.Message):
    __slots__ = ("party", "sealed")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    party: str
    sealed: bytes
    def __init__(self, party: _Optional[str] = ..., sealed: _Optional[bytes] = ...) -> None: ...

class AlignJobRequest(_message.Message):
    __slots__ = ("passive_party", "ids")
    PASSIVE_PARTY_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    passive_party: str
    ids: _common_pb2.RecordIds
    def __init__(self, passive_party: _Optional[str] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ...) -> None: ...

class AlignJobEvent(_message.Message):
    __slots__ = ("progress", "common", "done")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    COMMON_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    progress: AlignmentProgress
    common: _common_pb2.RecordIds
    done: AlignmentSummary
    def __init__(self, progress: _Optional[_Union[AlignmentProgress, _Mapping]] = ..., common: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., done: _Optional[_Union[AlignmentSummary, _Mapping]] = ...) -> None: ...

class AlignmentProgress(_message.Message):
    __slots__ = ("stage", "done", "total")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    stage: str
    done: int
    total: int
    def __init__(self, stage: _Optional[str] = ..., done: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class AlignmentSummary(_message.Message):
    __slots__ = ("own", "theirs", "common", "milliseconds", "sent_bytes", "received_bytes", "run", "runs_left")
    OWN_FIELD_NUMBER: _ClassVar[int]
    THEIRS_FIELD_NUMBER: _ClassVar[int]
    COMMON_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RUNS_LEFT_FIELD_NUMBER: _ClassVar[int]
    own: int
    theirs: int
    common: int
    milliseconds: int
    sent_bytes: int
    received_bytes: int
    run: int
    runs_left: int
    def __init__(self, own: _Optional[int] = ..., theirs: _Optional[int] = ..., common: _Optional[int] = ..., milliseconds: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., received_bytes: _Optional[int] = ..., run: _Optional[int] = ..., runs_left: _Optional[int] = ...) -> None: ...
