from . import alignment_pb2 as _alignment_pb2
from . import common_pb2 as _common_pb2
from . import private_release_pb2 as _private_release_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScoringMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCORING_MODE_UNSPECIFIED: _ClassVar[ScoringMode]
    SCORING_MODE_NOISED: _ClassVar[ScoringMode]
    SCORING_MODE_TRUSTED: _ClassVar[ScoringMode]
SCORING_MODE_UNSPECIFIED: ScoringMode
SCORING_MODE_NOISED: ScoringMode
SCORING_MODE_TRUSTED: ScoringMode

class DescribeFeaturesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeFeaturesResponse(_message.Message):
    __slots__ = ("party", "features")
    class Feature(_message.Message):
        __slots__ = ("name", "kind", "min", "max", "step", "group", "tolerance", "scale")
        NAME_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        MIN_FIELD_NUMBER: _ClassVar[int]
        MAX_FIELD_NUMBER: _ClassVar[int]
        STEP_FIELD_NUMBER: _ClassVar[int]
        GROUP_FIELD_NUMBER: _ClassVar[int]
        TOLERANCE_FIELD_NUMBER: _ClassVar[int]
        SCALE_FIELD_NUMBER: _ClassVar[int]
        name: str
        kind: str
        min: float
        max: float
        step: float
        group: str
        tolerance: float
        scale: DescribeFeaturesResponse.Scale
        def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., min: _Optional[float] = ..., max: _Optional[float] = ..., step: _Optional[float] = ..., group: _Optional[str] = ..., tolerance: _Optional[float] = ..., scale: _Optional[_Union[DescribeFeaturesResponse.Scale, _Mapping]] = ...) -> None: ...
    class Scale(_message.Message):
        __slots__ = ("function", "numbers")
        FUNCTION_FIELD_NUMBER: _ClassVar[int]
        NUMBERS_FIELD_NUMBER: _ClassVar[int]
        function: str
        numbers: _containers.RepeatedScalarFieldContainer[float]
        def __init__(self, function: _Optional[str] = ..., numbers: _Optional[_Iterable[float]] = ...) -> None: ...
    PARTY_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    party: str
    features: _containers.RepeatedCompositeFieldContainer[DescribeFeaturesResponse.Feature]
    def __init__(self, party: _Optional[str] = ..., features: _Optional[_Iterable[_Union[DescribeFeaturesResponse.Feature, _Mapping]]] = ...) -> None: ...

class ComputeLogitsRequest(_message.Message):
    __slots__ = ("model_version", "ids", "question", "trace_context")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    TRACE_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    ids: _common_pb2.RecordIds
    question: int
    trace_context: bytes
    def __init__(self, model_version: _Optional[str] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., question: _Optional[int] = ..., trace_context: _Optional[bytes] = ...) -> None: ...

class ComputeLogitsResponse(_message.Message):
    __slots__ = ("row_status", "logit_shares", "question", "refused")
    ROW_STATUS_FIELD_NUMBER: _ClassVar[int]
    LOGIT_SHARES_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    row_status: _containers.RepeatedScalarFieldContainer[_common_pb2.RowStatus]
    logit_shares: _common_pb2.Matrix
    question: int
    refused: _common_pb2.ShareRefusal
    def __init__(self, row_status: _Optional[_Iterable[_Union[_common_pb2.RowStatus, str]]] = ..., logit_shares: _Optional[_Union[_common_pb2.Matrix, _Mapping]] = ..., question: _Optional[int] = ..., refused: _Optional[_Union[_common_pb2.ShareRefusal, _Mapping]] = ...) -> None: ...

class DescribeStagedRequest(_message.Message):
    __slots__ = ("active_party", "class_names")
    ACTIVE_PARTY_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAMES_FIELD_NUMBER: _ClassVar[int]
    active_party: str
    class_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, active_party: _Optional[str] = ..., class_names: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeStagedResponse(_message.Message):
    __slots__ = ("digest", "features", "sub_model")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    SUB_MODEL_FIELD_NUMBER: _ClassVar[int]
    digest: str
    features: int
    sub_model: _common_pb2.SubModel
    def __init__(self, digest: _Optional[str] = ..., features: _Optional[int] = ..., sub_model: _Optional[_Union[_common_pb2.SubModel, _Mapping]] = ...) -> None: ...

class PublishStagedRequest(_message.Message):
    __slots__ = ("active_party", "class_names", "model_version", "digest")
    ACTIVE_PARTY_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAMES_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    active_party: str
    class_names: _containers.RepeatedScalarFieldContainer[str]
    model_version: str
    digest: str
    def __init__(self, active_party: _Optional[str] = ..., class_names: _Optional[_Iterable[str]] = ..., model_version: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class PublishStagedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseParametersRequest(_message.Message):
    __slots__ = ("model_version",)
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    def __init__(self, model_version: _Optional[str] = ...) -> None: ...

class ReleaseParametersResponse(_message.Message):
    __slots__ = ("weights", "feature_names", "kind", "bias_shift", "interpretability", "of_weights", "of_features", "sub_model")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[ReleaseParametersResponse.Kind]
        KIND_TRUE: _ClassVar[ReleaseParametersResponse.Kind]
        KIND_TRANSFORMED: _ClassVar[ReleaseParametersResponse.Kind]
        KIND_UNDISCLOSED: _ClassVar[ReleaseParametersResponse.Kind]
    KIND_UNSPECIFIED: ReleaseParametersResponse.Kind
    KIND_TRUE: ReleaseParametersResponse.Kind
    KIND_TRANSFORMED: ReleaseParametersResponse.Kind
    KIND_UNDISCLOSED: ReleaseParametersResponse.Kind
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    FEATURE_NAMES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BIAS_SHIFT_FIELD_NUMBER: _ClassVar[int]
    INTERPRETABILITY_FIELD_NUMBER: _ClassVar[int]
    OF_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    OF_FEATURES_FIELD_NUMBER: _ClassVar[int]
    SUB_MODEL_FIELD_NUMBER: _ClassVar[int]
    weights: _common_pb2.Matrix
    feature_names: _containers.RepeatedScalarFieldContainer[str]
    kind: ReleaseParametersResponse.Kind
    bias_shift: _containers.RepeatedScalarFieldContainer[float]
    interpretability: float
    of_weights: _common_pb2.Transform
    of_features: _common_pb2.Transform
    sub_model: bytes
    def __init__(self, weights: _Optional[_Union[_common_pb2.Matrix, _Mapping]] = ..., feature_names: _Optional[_Iterable[str]] = ..., kind: _Optional[_Union[ReleaseParametersResponse.Kind, str]] = ..., bias_shift: _Optional[_Iterable[float]] = ..., interpretability: _Optional[float] = ..., of_weights: _Optional[_Union[_common_pb2.Transform, _Mapping]] = ..., of_features: _Optional[_Union[_common_pb2.Transform, _Mapping]] = ..., sub_model: _Optional[bytes] = ...) -> None: ...

class LendSharesRequest(_message.Message):
    __slots__ = ("model_version", "ids")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    ids: _common_pb2.RecordIds
    def __init__(self, model_version: _Optional[str] = ..., ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ...) -> None: ...

class LendSharesResponse(_message.Message):
    __slots__ = ("logit_shares",)
    LOGIT_SHARES_FIELD_NUMBER: _ClassVar[int]
    logit_shares: _common_pb2.Matrix
    def __init__(self, logit_shares: _Optional[_Union[_common_pb2.Matrix, _Mapping]] = ...) -> None: ...

class EvaluateReconstructionRequest(_message.Message):
    __slots__ = ("ids", "estimates", "score", "model_version")
    IDS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATES_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ids: _common_pb2.RecordIds
    estimates: Estimates
    score: Score
    model_version: str
    def __init__(self, ids: _Optional[_Union[_common_pb2.RecordIds, _Mapping]] = ..., estimates: _Optional[_Union[Estimates, _Mapping]] = ..., score: _Optional[_Union[Score, _Mapping]] = ..., model_version: _Optional[str] = ...) -> None: ...

class Estimates(_message.Message):
    __slots__ = ("rows", "more", "control")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    rows: _common_pb2.Matrix
    more: bool
    control: bool
    def __init__(self, rows: _Optional[_Union[_common_pb2.Matrix, _Mapping]] = ..., more: bool = ..., control: bool = ...) -> None: ...

class Score(_message.Message):
    __slots__ = ("told", "by_feature", "control", "rho", "metrics", "moments", "by_attribute")
    class Told(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TOLD_UNSPECIFIED: _ClassVar[Score.Told]
        TOLD_BEST: _ClassVar[Score.Told]
        TOLD_ALL: _ClassVar[Score.Told]
    TOLD_UNSPECIFIED: Score.Told
    TOLD_BEST: Score.Told
    TOLD_ALL: Score.Told
    class Control(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONTROL_UNSPECIFIED: _ClassVar[Score.Control]
        CONTROL_HALF: _ClassVar[Score.Control]
        CONTROL_COLUMN_MEAN: _ClassVar[Score.Control]
        CONTROL_GIVEN: _ClassVar[Score.Control]
        CONTROL_MOMENTS: _ClassVar[Score.Control]
    CONTROL_UNSPECIFIED: Score.Control
    CONTROL_HALF: Score.Control
    CONTROL_COLUMN_MEAN: Score.Control
    CONTROL_GIVEN: Score.Control
    CONTROL_MOMENTS: Score.Control
    TOLD_FIELD_NUMBER: _ClassVar[int]
    BY_FEATURE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    RHO_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    MOMENTS_FIELD_NUMBER: _ClassVar[int]
    BY_ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    told: Score.Told
    by_feature: bool
    control: Score.Control
    rho: float
    metrics: _containers.RepeatedScalarFieldContainer[str]
    moments: bool
    by_attribute: bool
    def __init__(self, told: _Optional[_Union[Score.Told, str]] = ..., by_feature: bool = ..., control: _Optional[_Union[Score.Control, str]] = ..., rho: _Optional[float] = ..., metrics: _Optional[_Iterable[str]] = ..., moments: bool = ..., by_attribute: bool = ...) -> None: ...

class EvaluateReconstructionResponse(_message.Message):
    __slots__ = ("opened", "scored")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    SCORED_FIELD_NUMBER: _ClassVar[int]
    opened: EvaluationOpened
    scored: Scored
    def __init__(self, opened: _Optional[_Union[EvaluationOpened, _Mapping]] = ..., scored: _Optional[_Union[Scored, _Mapping]] = ...) -> None: ...

class EvaluationOpened(_message.Message):
    __slots__ = ("feature_names", "half", "column_mean", "scorings_left", "shown", "mode", "rho_total", "rho_left", "rho_per_scoring", "moments")
    FEATURE_NAMES_FIELD_NUMBER: _ClassVar[int]
    HALF_FIELD_NUMBER: _ClassVar[int]
    COLUMN_MEAN_FIELD_NUMBER: _ClassVar[int]
    SCORINGS_LEFT_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RHO_TOTAL_FIELD_NUMBER: _ClassVar[int]
    RHO_LEFT_FIELD_NUMBER: _ClassVar[int]
    RHO_PER_SCORING_FIELD_NUMBER: _ClassVar[int]
    MOMENTS_FIELD_NUMBER: _ClassVar[int]
    feature_names: _containers.RepeatedScalarFieldContainer[str]
    half: ReconstructionError
    column_mean: ReconstructionError
    scorings_left: int
    shown: ShownParameters
    mode: ScoringMode
    rho_total: float
    rho_left: float
    rho_per_scoring: float
    moments: bool
    def __init__(self, feature_names: _Optional[_Iterable[str]] = ..., half: _Optional[_Union[ReconstructionError, _Mapping]] = ..., column_mean: _Optional[_Union[ReconstructionError, _Mapping]] = ..., scorings_left: _Optional[int] = ..., shown: _Optional[_Union[ShownParameters, _Mapping]] = ..., mode: _Optional[_Union[ScoringMode, str]] = ..., rho_total: _Optional[float] = ..., rho_left: _Optional[float] = ..., rho_per_scoring: _Optional[float] = ..., moments: bool = ...) -> None: ...

class Scored(_message.Message):
    __slots__ = ("best", "errors", "control", "clipped", "rho_spent", "rho_left", "scorings_left")
    class Candidate(_message.Message):
        __slots__ = ("candidate", "error", "gain", "attributes")
        CANDIDATE_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        GAIN_FIELD_NUMBER: _ClassVar[int]
        ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
        candidate: int
        error: ReconstructionError
        gain: Gain
        attributes: _containers.RepeatedCompositeFieldContainer[AttributeFigures]
        def __init__(self, candidate: _Optional[int] = ..., error: _Optional[_Union[ReconstructionError, _Mapping]] = ..., gain: _Optional[_Union[Gain, _Mapping]] = ..., attributes: _Optional[_Iterable[_Union[AttributeFigures, _Mapping]]] = ...) -> None: ...
    BEST_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    CLIPPED_FIELD_NUMBER: _ClassVar[int]
    RHO_SPENT_FIELD_NUMBER: _ClassVar[int]
    RHO_LEFT_FIELD_NUMBER: _ClassVar[int]
    SCORINGS_LEFT_FIELD_NUMBER: _ClassVar[int]
    best: int
    errors: _containers.RepeatedCompositeFieldContainer[Scored.Candidate]
    control: ReconstructionError
    clipped: _containers.RepeatedScalarFieldContainer[int]
    rho_spent: float
    rho_left: float
    scorings_left: int
    def __init__(self, best: _Optional[int] = ..., errors: _Optional[_Iterable[_Union[Scored.Candidate, _Mapping]]] = ..., control: _Optional[_Union[ReconstructionError, _Mapping]] = ..., clipped: _Optional[_Iterable[int]] = ..., rho_spent: _Optional[float] = ..., rho_left: _Optional[float] = ..., scorings_left: _Optional[int] = ...) -> None: ...

class Gain(_message.Message):
    __slots__ = ("value", "low", "high", "halves")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    HALVES_FIELD_NUMBER: _ClassVar[int]
    value: float
    low: float
    high: float
    halves: Halves
    def __init__(self, value: _Optional[float] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., halves: _Optional[_Union[Halves, _Mapping]] = ...) -> None: ...

class Halves(_message.Message):
    __slots__ = ("first", "second")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    first: float
    second: float
    def __init__(self, first: _Optional[float] = ..., second: _Optional[float] = ...) -> None: ...

class AttributeFigures(_message.Message):
    __slots__ = ("attribute", "columns", "error", "removed", "removed_ranks", "event", "auc", "top_category", "within", "tolerance", "exact", "percentile_1", "percentile_5")
    class Beside(_message.Message):
        __slots__ = ("attack", "control")
        ATTACK_FIELD_NUMBER: _ClassVar[int]
        CONTROL_FIELD_NUMBER: _ClassVar[int]
        attack: float
        control: float
        def __init__(self, attack: _Optional[float] = ..., control: _Optional[float] = ...) -> None: ...
    class Event(_message.Message):
        __slots__ = ("rarer", "not_usual", "top_decile", "category", "named", "having", "right")
        RARER_FIELD_NUMBER: _ClassVar[int]
        NOT_USUAL_FIELD_NUMBER: _ClassVar[int]
        TOP_DECILE_FIELD_NUMBER: _ClassVar[int]
        CATEGORY_FIELD_NUMBER: _ClassVar[int]
        NAMED_FIELD_NUMBER: _ClassVar[int]
        HAVING_FIELD_NUMBER: _ClassVar[int]
        RIGHT_FIELD_NUMBER: _ClassVar[int]
        rarer: float
        not_usual: float
        top_decile: float
        category: str
        named: int
        having: int
        right: AttributeFigures.Beside
        def __init__(self, rarer: _Optional[float] = ..., not_usual: _Optional[float] = ..., top_decile: _Optional[float] = ..., category: _Optional[str] = ..., named: _Optional[int] = ..., having: _Optional[int] = ..., right: _Optional[_Union[AttributeFigures.Beside, _Mapping]] = ...) -> None: ...
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_RANKS_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    AUC_FIELD_NUMBER: _ClassVar[int]
    TOP_CATEGORY_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    PERCENTILE_1_FIELD_NUMBER: _ClassVar[int]
    PERCENTILE_5_FIELD_NUMBER: _ClassVar[int]
    attribute: str
    columns: _containers.RepeatedScalarFieldContainer[int]
    error: AttributeFigures.Beside
    removed: Removed
    removed_ranks: Removed
    event: AttributeFigures.Event
    auc: AttributeFigures.Beside
    top_category: AttributeFigures.Beside
    within: AttributeFigures.Beside
    tolerance: float
    exact: AttributeFigures.Beside
    percentile_1: AttributeFigures.Beside
    percentile_5: AttributeFigures.Beside
    def __init__(self, attribute: _Optional[str] = ..., columns: _Optional[_Iterable[int]] = ..., error: _Optional[_Union[AttributeFigures.Beside, _Mapping]] = ..., removed: _Optional[_Union[Removed, _Mapping]] = ..., removed_ranks: _Optional[_Union[Removed, _Mapping]] = ..., event: _Optional[_Union[AttributeFigures.Event, _Mapping]] = ..., auc: _Optional[_Union[AttributeFigures.Beside, _Mapping]] = ..., top_category: _Optional[_Union[AttributeFigures.Beside, _Mapping]] = ..., within: _Optional[_Union[AttributeFigures.Beside, _Mapping]] = ..., tolerance: _Optional[float] = ..., exact: _Optional[_Union[AttributeFigures.Beside, _Mapping]] = ..., percentile_1: _Optional[_Union[AttributeFigures.Beside, _Mapping]] = ..., percentile_5: _Optional[_Union[AttributeFigures.Beside, _Mapping]] = ...) -> None: ...

class Removed(_message.Message):
    __slots__ = ("value", "low", "high", "halves")
    class Half(_message.Message):
        __slots__ = ("value", "deviation")
        VALUE_FIELD_NUMBER: _ClassVar[int]
        DEVIATION_FIELD_NUMBER: _ClassVar[int]
        value: float
        deviation: float
        def __init__(self, value: _Optional[float] = ..., deviation: _Optional[float] = ...) -> None: ...
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    HALVES_FIELD_NUMBER: _ClassVar[int]
    value: float
    low: float
    high: float
    halves: _containers.RepeatedCompositeFieldContainer[Removed.Half]
    def __init__(self, value: _Optional[float] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., halves: _Optional[_Iterable[_Union[Removed.Half, _Mapping]]] = ...) -> None: ...

class ShownParameters(_message.Message):
    __slots__ = ("granted", "transformed", "trained_on_transformed", "disclosed", "of_weights", "interpretability", "of_features")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    TRANSFORMED_FIELD_NUMBER: _ClassVar[int]
    TRAINED_ON_TRANSFORMED_FIELD_NUMBER: _ClassVar[int]
    DISCLOSED_FIELD_NUMBER: _ClassVar[int]
    OF_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    INTERPRETABILITY_FIELD_NUMBER: _ClassVar[int]
    OF_FEATURES_FIELD_NUMBER: _ClassVar[int]
    granted: bool
    transformed: bool
    trained_on_transformed: bool
    disclosed: bool
    of_weights: _common_pb2.Transform
    interpretability: float
    of_features: _common_pb2.Transform
    def __init__(self, granted: bool = ..., transformed: bool = ..., trained_on_transformed: bool = ..., disclosed: bool = ..., of_weights: _Optional[_Union[_common_pb2.Transform, _Mapping]] = ..., interpretability: _Optional[float] = ..., of_features: _Optional[_Union[_common_pb2.Transform, _Mapping]] = ...) -> None: ...

class ReconstructionError(_message.Message):
    __slots__ = ("mse", "mse_by_feature", "sigma", "sigma_by_feature", "metrics")
    MSE_FIELD_NUMBER: _ClassVar[int]
    MSE_BY_FEATURE_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    SIGMA_BY_FEATURE_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    mse: float
    mse_by_feature: _containers.RepeatedScalarFieldContainer[float]
    sigma: float
    sigma_by_feature: float
    metrics: _containers.RepeatedCompositeFieldContainer[MetricFigure]
    def __init__(self, mse: _Optional[float] = ..., mse_by_feature: _Optional[_Iterable[float]] = ..., sigma: _Optional[float] = ..., sigma_by_feature: _Optional[float] = ..., metrics: _Optional[_Iterable[_Union[MetricFigure, _Mapping]]] = ...) -> None: ...

class MetricFigure(_message.Message):
    __slots__ = ("metric", "value", "sigma")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    metric: str
    value: float
    sigma: float
    def __init__(self, metric: _Optional[str] = ..., value: _Optional[float] = ..., sigma: _Optional[float] = ...) -> None: ...
