from . import alignment_pb2 as _alignment_pb2
from . import common_pb2 as _common_pb2
from . import private_release_pb2 as _private_release_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeModelRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeModelResponse(_message.Message):
    __slots__ = ("model_version", "class_names", "passive_parties", "policy", "active_features", "training", "model", "active_privacy", "top_shown", "private_release")
    class PassiveParty(_message.Message):
        __slots__ = ("name", "features", "privacy")
        NAME_FIELD_NUMBER: _ClassVar[int]
        FEATURES_FIELD_NUMBER: _ClassVar[int]
        PRIVACY_FIELD_NUMBER: _ClassVar[int]
        name: str
        features: int
        privacy: _common_pb2.Privacy
        def __init__(self, name: _Optional[str] = ..., features: _Optional[int] = ..., privacy: _Optional[_Union[_common_pb2.Privacy, _Mapping]] = ...) -> None: ...
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAMES_FIELD_NUMBER: _ClassVar[int]
    PASSIVE_PARTIES_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FEATURES_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_PRIVACY_FIELD_NUMBER: _ClassVar[int]
    TOP_SHOWN_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_RELEASE_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    class_names: _containers.RepeatedScalarFieldContainer[str]
    passive_parties: _containers.RepeatedCompositeFieldContainer[DescribeModelResponse.PassiveParty]
    policy: _common_pb2.Policy
    active_features: int
    training: _common_pb2.TrainingPublished
    model: _common_pb2.ModelSpec
    active_privacy: _common_pb2.Privacy
    top_shown: bool
    private_release: bool
    def __init__(self, model_version: _Optional[str] = ..., class_names: _Optional[_Iterable[str]] = ..., passive_parties: _Optional[_Iterable[_Union[DescribeModelResponse.PassiveParty, _Mapping]]] = ..., policy: _Optional[_Union[_common_pb2.Policy, _Mapping]] = ..., active_features: _Optional[int] = ..., training: _Optional[_Union[_common_pb2.TrainingPublished, _Mapping]] = ..., model: _Optional[_Union[_common_pb2.ModelSpec, _Mapping]] = ..., active_privacy: _Optional[_Union[_common_pb2.Privacy, _Mapping]] = ..., top_shown: bool = ..., private_release: bool = ...) -> None: ...

class ReleaseTopModelRequest(_message.Message):
    __slots__ = ("model_version",)
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    def __init__(self, model_version: _Optional[str] = ...) -> None: ...

class ReleaseTopModelResponse(_message.Message):
    __slots__ = ("top_model",)
    TOP_MODEL_FIELD_NUMBER: _ClassVar[int]
    top_model: bytes
    def __init__(self, top_model: _Optional[bytes] = ...) -> None: ...

class PublishReply(_message.Message):
    __slots__ = ("start", "training_ids", "published")
    START_FIELD_NUMBER: _ClassVar[int]
    TRAINING_IDS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    start: PublishStart
    training_ids: _common_pb2.RecordIds
    published: _common_pb2.SharePublished
    def __init__(self, start: _Optional[_Union[PublishStart, _Mapping]] = ..., training_ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., published: _Optional[_Union[_common_pb2.SharePublished, _Mapping]] = ...) -> None: ...

class PublishStart(_message.Message):
    __slots__ = ("class_names", "features", "digest", "training_id_count", "sub_model")
    CLASS_NAMES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TRAINING_ID_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUB_MODEL_FIELD_NUMBER: _ClassVar[int]
    class_names: _containers.RepeatedScalarFieldContainer[str]
    features: int
    digest: str
    training_id_count: int
    sub_model: _common_pb2.SubModel
    def __init__(self, class_names: _Optional[_Iterable[str]] = ..., features: _Optional[int] = ..., digest: _Optional[str] = ..., training_id_count: _Optional[int] = ..., sub_model: _Optional[_Union[_common_pb2.SubModel, _Mapping]] = ...) -> None: ...

class PublishCommand(_message.Message):
    __slots__ = ("publish", "published")
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    publish: _common_pb2.PublishShare
    published: _common_pb2.TrainingPublished
    def __init__(self, publish: _Optional[_Union[_common_pb2.PublishShare, _Mapping]] = ..., published: _Optional[_Union[_common_pb2.TrainingPublished, _Mapping]] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ("model_version", "ids", "logit_shares", "audit_session", "request_id")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LOGIT_SHARES_FIELD_NUMBER: _ClassVar[int]
    AUDIT_SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    ids: _common_pb2.RecordIds
    logit_shares: _common_pb2.Matrix
    audit_session: str
    request_id: str
    def __init__(self, model_version: _Optional[str] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., logit_shares: _Optional[_Union[_common_pb2.Matrix, _Mapping]] = ..., audit_session: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ("model_version", "row_status", "release")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROW_STATUS_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    row_status: _containers.RepeatedScalarFieldContainer[_common_pb2.RowStatus]
    release: _common_pb2.Release
    def __init__(self, model_version: _Optional[str] = ..., row_status: _Optional[_Iterable[_Union[_common_pb2.RowStatus, str]]] = ..., release: _Optional[_Union[_common_pb2.Release, _Mapping]] = ...) -> None: ...

class DescribeLedgerRequest(_message.Message):
    __slots__ = ("active_party",)
    ACTIVE_PARTY_FIELD_NUMBER: _ClassVar[int]
    active_party: str
    def __init__(self, active_party: _Optional[str] = ...) -> None: ...

class DescribeLedgerResponse(_message.Message):
    __slots__ = ("kept", "budgets", "parties")
    class Budgets(_message.Message):
        __slots__ = ("records", "queries_per_record", "rows_per_minute", "models_per_record", "bits_per_record")
        RECORDS_FIELD_NUMBER: _ClassVar[int]
        QUERIES_PER_RECORD_FIELD_NUMBER: _ClassVar[int]
        ROWS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
        MODELS_PER_RECORD_FIELD_NUMBER: _ClassVar[int]
        BITS_PER_RECORD_FIELD_NUMBER: _ClassVar[int]
        records: int
        queries_per_record: int
        rows_per_minute: int
        models_per_record: int
        bits_per_record: float
        def __init__(self, records: _Optional[int] = ..., queries_per_record: _Optional[int] = ..., rows_per_minute: _Optional[int] = ..., models_per_record: _Optional[int] = ..., bits_per_record: _Optional[float] = ...) -> None: ...
    class Use(_message.Message):
        __slots__ = ("model_version", "policy", "queries", "refused", "first_at", "last_at", "passive_fingerprint", "bits")
        MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
        POLICY_FIELD_NUMBER: _ClassVar[int]
        QUERIES_FIELD_NUMBER: _ClassVar[int]
        REFUSED_FIELD_NUMBER: _ClassVar[int]
        FIRST_AT_FIELD_NUMBER: _ClassVar[int]
        LAST_AT_FIELD_NUMBER: _ClassVar[int]
        PASSIVE_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
        BITS_FIELD_NUMBER: _ClassVar[int]
        model_version: str
        policy: str
        queries: int
        refused: int
        first_at: int
        last_at: int
        passive_fingerprint: str
        bits: float
        def __init__(self, model_version: _Optional[str] = ..., policy: _Optional[str] = ..., queries: _Optional[int] = ..., refused: _Optional[int] = ..., first_at: _Optional[int] = ..., last_at: _Optional[int] = ..., passive_fingerprint: _Optional[str] = ..., bits: _Optional[float] = ...) -> None: ...
    class Party(_message.Message):
        __slots__ = ("name", "records", "records_left", "queries", "refused", "uses")
        NAME_FIELD_NUMBER: _ClassVar[int]
        RECORDS_FIELD_NUMBER: _ClassVar[int]
        RECORDS_LEFT_FIELD_NUMBER: _ClassVar[int]
        QUERIES_FIELD_NUMBER: _ClassVar[int]
        REFUSED_FIELD_NUMBER: _ClassVar[int]
        USES_FIELD_NUMBER: _ClassVar[int]
        name: str
        records: int
        records_left: int
        queries: int
        refused: int
        uses: _containers.RepeatedCompositeFieldContainer[DescribeLedgerResponse.Use]
        def __init__(self, name: _Optional[str] = ..., records: _Optional[int] = ..., records_left: _Optional[int] = ..., queries: _Optional[int] = ..., refused: _Optional[int] = ..., uses: _Optional[_Iterable[_Union[DescribeLedgerResponse.Use, _Mapping]]] = ...) -> None: ...
    KEPT_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    PARTIES_FIELD_NUMBER: _ClassVar[int]
    kept: bool
    budgets: DescribeLedgerResponse.Budgets
    parties: _containers.RepeatedCompositeFieldContainer[DescribeLedgerResponse.Party]
    def __init__(self, kept: bool = ..., budgets: _Optional[_Union[DescribeLedgerResponse.Budgets, _Mapping]] = ..., parties: _Optional[_Iterable[_Union[DescribeLedgerResponse.Party, _Mapping]]] = ...) -> None: ...

class OpenAuditRequest(_message.Message):
    __slots__ = ("model_version", "policy", "ids", "active_party")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_PARTY_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    policy: _common_pb2.Policy
    ids: _common_pb2.RecordIds
    active_party: str
    def __init__(self, model_version: _Optional[str] = ..., policy: _Optional[_Union[_common_pb2.Policy, _Mapping]] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., active_party: _Optional[str] = ...) -> None: ...

class OpenAuditResponse(_message.Message):
    __slots__ = ("audit_session", "row_budget", "promise")
    AUDIT_SESSION_FIELD_NUMBER: _ClassVar[int]
    ROW_BUDGET_FIELD_NUMBER: _ClassVar[int]
    PROMISE_FIELD_NUMBER: _ClassVar[int]
    audit_session: str
    row_budget: int
    promise: Promise
    def __init__(self, audit_session: _Optional[str] = ..., row_budget: _Optional[int] = ..., promise: _Optional[_Union[Promise, _Mapping]] = ...) -> None: ...

class Promise(_message.Message):
    __slots__ = ("keeps_arg_max", "keeps_ranking", "randomised", "bits", "notes")
    KEEPS_ARG_MAX_FIELD_NUMBER: _ClassVar[int]
    KEEPS_RANKING_FIELD_NUMBER: _ClassVar[int]
    RANDOMISED_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    keeps_arg_max: bool
    keeps_ranking: bool
    randomised: bool
    bits: float
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keeps_arg_max: bool = ..., keeps_ranking: bool = ..., randomised: bool = ..., bits: _Optional[float] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class CloseAuditRequest(_message.Message):
    __slots__ = ("audit_session", "without_summary")
    AUDIT_SESSION_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    audit_session: str
    without_summary: bool
    def __init__(self, audit_session: _Optional[str] = ..., without_summary: bool = ...) -> None: ...

class CloseAuditResponse(_message.Message):
    __slots__ = ("rows", "kl_divergence", "total_variation", "arg_max_kept", "records", "withheld", "mean_change")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    KL_DIVERGENCE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_VARIATION_FIELD_NUMBER: _ClassVar[int]
    ARG_MAX_KEPT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    MEAN_CHANGE_FIELD_NUMBER: _ClassVar[int]
    rows: int
    kl_divergence: float
    total_variation: float
    arg_max_kept: float
    records: int
    withheld: str
    mean_change: float
    def __init__(self, rows: _Optional[int] = ..., kl_divergence: _Optional[float] = ..., total_variation: _Optional[float] = ..., arg_max_kept: _Optional[float] = ..., records: _Optional[int] = ..., withheld: _Optional[str] = ..., mean_change: _Optional[float] = ...) -> None: ...
