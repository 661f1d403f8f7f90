from . import alignment_pb2 as _alignment_pb2
from . import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScoreRequest(_message.Message):
    __slots__ = ("ids", "request_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _common_pb2.RecordIds
    request_id: str
    def __init__(self, ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("model_version", "class_names", "row_status", "release")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAMES_FIELD_NUMBER: _ClassVar[int]
    ROW_STATUS_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    class_names: _containers.RepeatedScalarFieldContainer[str]
    row_status: _containers.RepeatedScalarFieldContainer[_common_pb2.RowStatus]
    release: _common_pb2.Release
    def __init__(self, model_version: _Optional[str] = ..., class_names: _Optional[_Iterable[str]] = ..., row_status: _Optional[_Iterable[_Union[_common_pb2.RowStatus, str]]] = ..., release: _Optional[_Union[_common_pb2.Release, _Mapping]] = ...) -> None: ...

class TrainJobRequest(_message.Message):
    __slots__ = ("config", "ids")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    config: _common_pb2.TrainingConfig
    ids: _common_pb2.RecordIds
    def __init__(self, config: _Optional[_Union[_common_pb2.TrainingConfig, _Mapping]] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ...) -> None: ...

class TrainJobEvent(_message.Message):
    __slots__ = ("progress", "published")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    progress: _common_pb2.TrainingProgress
    published: _common_pb2.TrainingPublished
    def __init__(self, progress: _Optional[_Union[_common_pb2.TrainingProgress, _Mapping]] = ..., published: _Optional[_Union[_common_pb2.TrainingPublished, _Mapping]] = ...) -> None: ...

class PublishJobRequest(_message.Message):
    __slots__ = ("training_ids",)
    TRAINING_IDS_FIELD_NUMBER: _ClassVar[int]
    training_ids: _common_pb2.RecordIds
    def __init__(self, training_ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ...) -> None: ...

class PublishJobResponse(_message.Message):
    __slots__ = ("published", "unknown_training_ids")
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_TRAINING_IDS_FIELD_NUMBER: _ClassVar[int]
    published: _common_pb2.TrainingPublished
    unknown_training_ids: int
    def __init__(self, published: _Optional[_Union[_common_pb2.TrainingPublished, _Mapping]] = ..., unknown_training_ids: _Optional[int] = ...) -> None: ...

class AttackSpec(_message.Message):
    __slots__ = ("name", "settings")
    class Setting(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: _containers.RepeatedCompositeFieldContainer[AttackSpec.Setting]
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[AttackSpec.Setting, _Mapping]]] = ...) -> None: ...

class ReconstructRequest(_message.Message):
    __slots__ = ("audit_session", "model_version", "ids", "attacks", "seed", "queries", "auxiliary_ids", "auxiliary_session", "colluders")
    AUDIT_SESSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ATTACKS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    AUXILIARY_IDS_FIELD_NUMBER: _ClassVar[int]
    AUXILIARY_SESSION_FIELD_NUMBER: _ClassVar[int]
    COLLUDERS_FIELD_NUMBER: _ClassVar[int]
    audit_session: str
    model_version: str
    ids: _common_pb2.RecordIds
    attacks: _containers.RepeatedCompositeFieldContainer[AttackSpec]
    seed: int
    queries: int
    auxiliary_ids: _common_pb2.RecordIds
    auxiliary_session: str
    colluders: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, audit_session: _Optional[str] = ..., model_version: _Optional[str] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., attacks: _Optional[_Iterable[_Union[AttackSpec, _Mapping]]] = ..., seed: _Optional[int] = ..., queries: _Optional[int] = ..., auxiliary_ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., auxiliary_session: _Optional[str] = ..., colluders: _Optional[_Iterable[str]] = ...) -> None: ...

class ReconstructEvent(_message.Message):
    __slots__ = ("progress", "scores", "result")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    progress: ReconstructProgress
    scores: ReconstructedScores
    result: AttackResult
    def __init__(self, progress: _Optional[_Union[ReconstructProgress, _Mapping]] = ..., scores: _Optional[_Union[ReconstructedScores, _Mapping]] = ..., result: _Optional[_Union[AttackResult, _Mapping]] = ...) -> None: ...

class ReconstructProgress(_message.Message):
    __slots__ = ("done", "total", "stage")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    done: int
    total: int
    stage: str
    def __init__(self, done: _Optional[int] = ..., total: _Optional[int] = ..., stage: _Optional[str] = ...) -> None: ...

class ReconstructedScores(_message.Message):
    __slots__ = ("rows", "accuracy")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    rows: int
    accuracy: float
    def __init__(self, rows: _Optional[int] = ..., accuracy: _Optional[float] = ...) -> None: ...

class AttackResult(_message.Message):
    __slots__ = ("attack", "blocks", "refusal", "refused", "outcome", "rank", "unknowns", "condition_number", "nearest_consistent", "step_limit", "remarks", "certain", "releases", "repeated", "chosen", "estimated_scores", "evidence", "auxiliary_records", "score_mismatch")
    class Refused(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REFUSED_UNSPECIFIED: _ClassVar[AttackResult.Refused]
        REFUSED_PARAMETERS_HIDDEN: _ClassVar[AttackResult.Refused]
        REFUSED_MISSING: _ClassVar[AttackResult.Refused]
        REFUSED_UNSUITABLE: _ClassVar[AttackResult.Refused]
        REFUSED_TOO_LARGE: _ClassVar[AttackResult.Refused]
        REFUSED_UNANSWERED: _ClassVar[AttackResult.Refused]
        REFUSED_SETTINGS: _ClassVar[AttackResult.Refused]
        REFUSED_NUMERICS: _ClassVar[AttackResult.Refused]
    REFUSED_UNSPECIFIED: AttackResult.Refused
    REFUSED_PARAMETERS_HIDDEN: AttackResult.Refused
    REFUSED_MISSING: AttackResult.Refused
    REFUSED_UNSUITABLE: AttackResult.Refused
    REFUSED_TOO_LARGE: AttackResult.Refused
    REFUSED_UNANSWERED: AttackResult.Refused
    REFUSED_SETTINGS: AttackResult.Refused
    REFUSED_NUMERICS: AttackResult.Refused
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[AttackResult.Outcome]
        OUTCOME_GUESS: _ClassVar[AttackResult.Outcome]
        OUTCOME_UNIQUE: _ClassVar[AttackResult.Outcome]
        OUTCOME_LEAST_NORM: _ClassVar[AttackResult.Outcome]
        OUTCOME_NEAREST_HALF: _ClassVar[AttackResult.Outcome]
        OUTCOME_BEST_FIT: _ClassVar[AttackResult.Outcome]
        OUTCOME_CENTRE: _ClassVar[AttackResult.Outcome]
        OUTCOME_DESCENT: _ClassVar[AttackResult.Outcome]
        OUTCOME_SCALED: _ClassVar[AttackResult.Outcome]
        OUTCOME_POSTERIOR: _ClassVar[AttackResult.Outcome]
        OUTCOME_REGRESSION: _ClassVar[AttackResult.Outcome]
        OUTCOME_LAYER_BY_LAYER: _ClassVar[AttackResult.Outcome]
        OUTCOME_GRID_POINT: _ClassVar[AttackResult.Outcome]
    OUTCOME_UNSPECIFIED: AttackResult.Outcome
    OUTCOME_GUESS: AttackResult.Outcome
    OUTCOME_UNIQUE: AttackResult.Outcome
    OUTCOME_LEAST_NORM: AttackResult.Outcome
    OUTCOME_NEAREST_HALF: AttackResult.Outcome
    OUTCOME_BEST_FIT: AttackResult.Outcome
    OUTCOME_CENTRE: AttackResult.Outcome
    OUTCOME_DESCENT: AttackResult.Outcome
    OUTCOME_SCALED: AttackResult.Outcome
    OUTCOME_POSTERIOR: AttackResult.Outcome
    OUTCOME_REGRESSION: AttackResult.Outcome
    OUTCOME_LAYER_BY_LAYER: AttackResult.Outcome
    OUTCOME_GRID_POINT: AttackResult.Outcome
    class Evidence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EVIDENCE_UNSPECIFIED: _ClassVar[AttackResult.Evidence]
        EVIDENCE_NOTHING: _ClassVar[AttackResult.Evidence]
        EVIDENCE_EQUATIONS: _ClassVar[AttackResult.Evidence]
        EVIDENCE_CELLS: _ClassVar[AttackResult.Evidence]
        EVIDENCE_NOISY_SCORES: _ClassVar[AttackResult.Evidence]
    EVIDENCE_UNSPECIFIED: AttackResult.Evidence
    EVIDENCE_NOTHING: AttackResult.Evidence
    EVIDENCE_EQUATIONS: AttackResult.Evidence
    EVIDENCE_CELLS: AttackResult.Evidence
    EVIDENCE_NOISY_SCORES: AttackResult.Evidence
    class Block(_message.Message):
        __slots__ = ("passive_party", "estimates")
        PASSIVE_PARTY_FIELD_NUMBER: _ClassVar[int]
        ESTIMATES_FIELD_NUMBER: _ClassVar[int]
        passive_party: str
        estimates: _common_pb2.Matrix
        def __init__(self, passive_party: _Optional[str] = ..., estimates: _Optional[_Union[_common_pb2.Matrix, _Mapping]] = ...) -> None: ...
    class RepeatedQuestions(_message.Message):
        __slots__ = ("queries", "distinct")
        QUERIES_FIELD_NUMBER: _ClassVar[int]
        DISTINCT_FIELD_NUMBER: _ClassVar[int]
        queries: int
        distinct: int
        def __init__(self, queries: _Optional[int] = ..., distinct: _Optional[int] = ...) -> None: ...
    class ChosenQuestions(_message.Message):
        __slots__ = ("questions", "asked", "refused", "gained", "records")
        QUESTIONS_FIELD_NUMBER: _ClassVar[int]
        ASKED_FIELD_NUMBER: _ClassVar[int]
        REFUSED_FIELD_NUMBER: _ClassVar[int]
        GAINED_FIELD_NUMBER: _ClassVar[int]
        RECORDS_FIELD_NUMBER: _ClassVar[int]
        questions: int
        asked: int
        refused: int
        gained: int
        records: int
        def __init__(self, questions: _Optional[int] = ..., asked: _Optional[int] = ..., refused: _Optional[int] = ..., gained: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...
    class EstimatedScores(_message.Message):
        __slots__ = ("labelled", "seen", "own_scores", "records")
        LABELLED_FIELD_NUMBER: _ClassVar[int]
        SEEN_FIELD_NUMBER: _ClassVar[int]
        OWN_SCORES_FIELD_NUMBER: _ClassVar[int]
        RECORDS_FIELD_NUMBER: _ClassVar[int]
        labelled: int
        seen: int
        own_scores: int
        records: int
        def __init__(self, labelled: _Optional[int] = ..., seen: _Optional[int] = ..., own_scores: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...
    ATTACK_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    UNKNOWNS_FIELD_NUMBER: _ClassVar[int]
    CONDITION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    NEAREST_CONSISTENT_FIELD_NUMBER: _ClassVar[int]
    STEP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    REMARKS_FIELD_NUMBER: _ClassVar[int]
    CERTAIN_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_SCORES_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    AUXILIARY_RECORDS_FIELD_NUMBER: _ClassVar[int]
    SCORE_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    attack: str
    blocks: _containers.RepeatedCompositeFieldContainer[AttackResult.Block]
    refusal: str
    refused: AttackResult.Refused
    outcome: AttackResult.Outcome
    rank: int
    unknowns: int
    condition_number: float
    nearest_consistent: int
    step_limit: int
    remarks: _containers.RepeatedScalarFieldContainer[str]
    certain: int
    releases: int
    repeated: AttackResult.RepeatedQuestions
    chosen: AttackResult.ChosenQuestions
    estimated_scores: AttackResult.EstimatedScores
    evidence: AttackResult.Evidence
    auxiliary_records: int
    score_mismatch: float
    def __init__(self, attack: _Optional[str] = ..., blocks: _Optional[_Iterable[_Union[AttackResult.Block, _Mapping]]] = ..., refusal: _Optional[str] = ..., refused: _Optional[_Union[AttackResult.Refused, str]] = ..., outcome: _Optional[_Union[AttackResult.Outcome, str]] = ..., rank: _Optional[int] = ..., unknowns: _Optional[int] = ..., condition_number: _Optional[float] = ..., nearest_consistent: _Optional[int] = ..., step_limit: _Optional[int] = ..., remarks: _Optional[_Iterable[str]] = ..., certain: _Optional[int] = ..., releases: _Optional[int] = ..., repeated: _Optional[_Union[AttackResult.RepeatedQuestions, _Mapping]] = ..., chosen: _Optional[_Union[AttackResult.ChosenQuestions, _Mapping]] = ..., estimated_scores: _Optional[_Union[AttackResult.EstimatedScores, _Mapping]] = ..., evidence: _Optional[_Union[AttackResult.Evidence, str]] = ..., auxiliary_records: _Optional[int] = ..., score_mismatch: _Optional[float] = ...) -> None: ...
