from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RowStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROW_STATUS_UNSPECIFIED: _ClassVar[RowStatus]
    ROW_STATUS_OK: _ClassVar[RowStatus]
    ROW_STATUS_NOT_FOUND: _ClassVar[RowStatus]
    ROW_STATUS_TRAINING_RECORD: _ClassVar[RowStatus]
    ROW_STATUS_NOT_IN_SESSION: _ClassVar[RowStatus]
    ROW_STATUS_SHARE_CHANGED: _ClassVar[RowStatus]
    ROW_STATUS_BUDGET_SPENT: _ClassVar[RowStatus]
    ROW_STATUS_MODEL_BUDGET_SPENT: _ClassVar[RowStatus]
    ROW_STATUS_FALLBACK: _ClassVar[RowStatus]

class Combiner(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMBINER_UNSPECIFIED: _ClassVar[Combiner]
    COMBINER_SUM: _ClassVar[Combiner]
    COMBINER_CONCAT: _ClassVar[Combiner]
ROW_STATUS_UNSPECIFIED: RowStatus
ROW_STATUS_OK: RowStatus
ROW_STATUS_NOT_FOUND: RowStatus
ROW_STATUS_TRAINING_RECORD: RowStatus
ROW_STATUS_NOT_IN_SESSION: RowStatus
ROW_STATUS_SHARE_CHANGED: RowStatus
ROW_STATUS_BUDGET_SPENT: RowStatus
ROW_STATUS_MODEL_BUDGET_SPENT: RowStatus
ROW_STATUS_FALLBACK: RowStatus
COMBINER_UNSPECIFIED: Combiner
COMBINER_SUM: Combiner
COMBINER_CONCAT: Combiner

class Matrix(_message.Message):
    __slots__ = ("rows", "columns", "values")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    values: bytes
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ..., values: _Optional[bytes] = ...) -> None: ...

class RecordIds(_message.Message):
    __slots__ = ("text", "ends")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    text: str
    ends: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, text: _Optional[str] = ..., ends: _Optional[_Iterable[int]] = ...) -> None: ...

class ShareRefusal(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Labels(_message.Message):
    __slots__ = ("classes", "labels")
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    classes: int
    labels: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, classes: _Optional[int] = ..., labels: _Optional[_Iterable[int]] = ...) -> None: ...

class Ciphertexts(_message.Message):
    __slots__ = ("rows", "columns", "values")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    values: bytes
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ..., values: _Optional[bytes] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("probabilities", "numbers", "labels", "ciphertexts")
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CIPHERTEXTS_FIELD_NUMBER: _ClassVar[int]
    probabilities: Matrix
    numbers: Matrix
    labels: Labels
    ciphertexts: Ciphertexts
    def __init__(self, probabilities: _Optional[_Union[Matrix, _Mapping]] = ..., numbers: _Optional[_Union[Matrix, _Mapping]] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., ciphertexts: _Optional[_Union[Ciphertexts, _Mapping]] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("defenses", "fresh_noise", "unbound_shares")
    DEFENSES_FIELD_NUMBER: _ClassVar[int]
    FRESH_NOISE_FIELD_NUMBER: _ClassVar[int]
    UNBOUND_SHARES_FIELD_NUMBER: _ClassVar[int]
    defenses: _containers.RepeatedCompositeFieldContainer[Defense]
    fresh_noise: bool
    unbound_shares: bool
    def __init__(self, defenses: _Optional[_Iterable[_Union[Defense, _Mapping]]] = ..., fresh_noise: bool = ..., unbound_shares: bool = ...) -> None: ...

class Defense(_message.Message):
    __slots__ = ("name", "parameters")
    class Numbers(_message.Message):
        __slots__ = ("values",)
        VALUES_FIELD_NUMBER: _ClassVar[int]
        values: _containers.RepeatedScalarFieldContainer[float]
        def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...
    class Parameter(_message.Message):
        __slots__ = ("name", "number", "whole", "truth", "text", "numbers")
        NAME_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        WHOLE_FIELD_NUMBER: _ClassVar[int]
        TRUTH_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        NUMBERS_FIELD_NUMBER: _ClassVar[int]
        name: str
        number: float
        whole: int
        truth: bool
        text: str
        numbers: Defense.Numbers
        def __init__(self, name: _Optional[str] = ..., number: _Optional[float] = ..., whole: _Optional[int] = ..., truth: bool = ..., text: _Optional[str] = ..., numbers: _Optional[_Union[Defense.Numbers, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    parameters: _containers.RepeatedCompositeFieldContainer[Defense.Parameter]
    def __init__(self, name: _Optional[str] = ..., parameters: _Optional[_Iterable[_Union[Defense.Parameter, _Mapping]]] = ...) -> None: ...

class Transform(_message.Message):
    __slots__ = ("none", "negate", "complement", "permute", "selective", "random_orthonormal", "least_squares_optimal", "stiefel", "single_feature", "binary")
    class None_(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Negate(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Complement(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Permute(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Selective(_message.Message):
        __slots__ = ("features",)
        FEATURES_FIELD_NUMBER: _ClassVar[int]
        features: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, features: _Optional[_Iterable[int]] = ...) -> None: ...
    class RandomOrthonormal(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class LeastSquaresOptimal(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Stiefel(_message.Message):
        __slots__ = ("epsilon", "randomised", "case", "penalty", "starts")
        class Case(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            CASE_UNSPECIFIED: _ClassVar[Transform.Stiefel.Case]
            CASE_I: _ClassVar[Transform.Stiefel.Case]
            CASE_II: _ClassVar[Transform.Stiefel.Case]
        CASE_UNSPECIFIED: Transform.Stiefel.Case
        CASE_I: Transform.Stiefel.Case
        CASE_II: Transform.Stiefel.Case
        EPSILON_FIELD_NUMBER: _ClassVar[int]
        RANDOMISED_FIELD_NUMBER: _ClassVar[int]
        CASE_FIELD_NUMBER: _ClassVar[int]
        PENALTY_FIELD_NUMBER: _ClassVar[int]
        STARTS_FIELD_NUMBER: _ClassVar[int]
        epsilon: float
        randomised: bool
        case: Transform.Stiefel.Case
        penalty: float
        starts: int
        def __init__(self, epsilon: _Optional[float] = ..., randomised: bool = ..., case: _Optional[_Union[Transform.Stiefel.Case, str]] = ..., penalty: _Optional[float] = ..., starts: _Optional[int] = ...) -> None: ...
    class SingleFeature(_message.Message):
        __slots__ = ("epsilon", "randomised")
        EPSILON_FIELD_NUMBER: _ClassVar[int]
        RANDOMISED_FIELD_NUMBER: _ClassVar[int]
        epsilon: float
        randomised: bool
        def __init__(self, epsilon: _Optional[float] = ..., randomised: bool = ...) -> None: ...
    class Binary(_message.Message):
        __slots__ = ("epsilon", "randomised")
        EPSILON_FIELD_NUMBER: _ClassVar[int]
        RANDOMISED_FIELD_NUMBER: _ClassVar[int]
        epsilon: float
        randomised: bool
        def __init__(self, epsilon: _Optional[float] = ..., randomised: bool = ...) -> None: ...
    NONE_FIELD_NUMBER: _ClassVar[int]
    NEGATE_FIELD_NUMBER: _ClassVar[int]
    COMPLEMENT_FIELD_NUMBER: _ClassVar[int]
    PERMUTE_FIELD_NUMBER: _ClassVar[int]
    SELECTIVE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ORTHONORMAL_FIELD_NUMBER: _ClassVar[int]
    LEAST_SQUARES_OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    STIEFEL_FIELD_NUMBER: _ClassVar[int]
    SINGLE_FEATURE_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    none: getattr(Transform, 'None')
    negate: Transform.Negate
    complement: Transform.Complement
    permute: Transform.Permute
    selective: Transform.Selective
    random_orthonormal: Transform.RandomOrthonormal
    least_squares_optimal: Transform.LeastSquaresOptimal
    stiefel: Transform.Stiefel
    single_feature: Transform.SingleFeature
    binary: Transform.Binary
    def __init__(self, none: _Optional[_Union[getattr(Transform, 'None'), _Mapping]] = ..., negate: _Optional[_Union[Transform.Negate, _Mapping]] = ..., complement: _Optional[_Union[Transform.Complement, _Mapping]] = ..., permute: _Optional[_Union[Transform.Permute, _Mapping]] = ..., selective: _Optional[_Union[Transform.Selective, _Mapping]] = ..., random_orthonormal: _Optional[_Union[Transform.RandomOrthonormal, _Mapping]] = ..., least_squares_optimal: _Optional[_Union[Transform.LeastSquaresOptimal, _Mapping]] = ..., stiefel: _Optional[_Union[Transform.Stiefel, _Mapping]] = ..., single_feature: _Optional[_Union[Transform.SingleFeature, _Mapping]] = ..., binary: _Optional[_Union[Transform.Binary, _Mapping]] = ...) -> None: ...

class TrainingConfig(_message.Message):
    __slots__ = ("epochs", "batch_size", "learning_rate", "l2", "validation_share", "patience", "seed", "model", "shuffle_block", "private", "label_scale")
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    L2_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_SHARE_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_BLOCK_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SCALE_FIELD_NUMBER: _ClassVar[int]
    epochs: int
    batch_size: int
    learning_rate: float
    l2: float
    validation_share: float
    patience: int
    seed: int
    model: ModelConfig
    shuffle_block: int
    private: bool
    label_scale: float
    def __init__(self, epochs: _Optional[int] = ..., batch_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., l2: _Optional[float] = ..., validation_share: _Optional[float] = ..., patience: _Optional[int] = ..., seed: _Optional[int] = ..., model: _Optional[_Union[ModelConfig, _Mapping]] = ..., shuffle_block: _Optional[int] = ..., private: bool = ..., label_scale: _Optional[float] = ...) -> None: ...

class SubModel(_message.Message):
    __slots__ = ("kind", "width", "settings")
    KIND_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    width: int
    settings: str
    def __init__(self, kind: _Optional[str] = ..., width: _Optional[int] = ..., settings: _Optional[str] = ...) -> None: ...

class ModelSpec(_message.Message):
    __slots__ = ("combiner", "active", "passive", "top")
    COMBINER_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    PASSIVE_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    combiner: Combiner
    active: SubModel
    passive: _containers.RepeatedCompositeFieldContainer[SubModel]
    top: SubModel
    def __init__(self, combiner: _Optional[_Union[Combiner, str]] = ..., active: _Optional[_Union[SubModel, _Mapping]] = ..., passive: _Optional[_Iterable[_Union[SubModel, _Mapping]]] = ..., top: _Optional[_Union[SubModel, _Mapping]] = ...) -> None: ...

class ModelConfig(_message.Message):
    __slots__ = ("combiner", "kind", "width", "settings", "top")
    COMBINER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    combiner: Combiner
    kind: str
    width: int
    settings: str
    top: str
    def __init__(self, combiner: _Optional[_Union[Combiner, str]] = ..., kind: _Optional[str] = ..., width: _Optional[int] = ..., settings: _Optional[str] = ..., top: _Optional[str] = ...) -> None: ...

class TrainingCommand(_message.Message):
    __slots__ = ("begin", "records", "step", "store", "publish", "progress", "published", "compute", "piece")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    begin: TrainingBegin
    records: RecordIds
    step: TrainingStep
    store: StoreShare
    publish: PublishShare
    progress: TrainingProgress
    published: TrainingPublished
    compute: PrivateComputation
    piece: ComputationPiece
    def __init__(self, begin: _Optional[_Union[TrainingBegin, _Mapping]] = ..., records: _Optional[_Union[RecordIds, _Mapping]] = ..., step: _Optional[_Union[TrainingStep, _Mapping]] = ..., store: _Optional[_Union[StoreShare, _Mapping]] = ..., publish: _Optional[_Union[PublishShare, _Mapping]] = ..., progress: _Optional[_Union[TrainingProgress, _Mapping]] = ..., published: _Optional[_Union[TrainingPublished, _Mapping]] = ..., compute: _Optional[_Union[PrivateComputation, _Mapping]] = ..., piece: _Optional[_Union[ComputationPiece, _Mapping]] = ...) -> None: ...

class TrainingReply(_message.Message):
    __slots__ = ("start", "labelled", "ready", "shares", "stored", "published", "consent", "piece", "computed")
    START_FIELD_NUMBER: _ClassVar[int]
    LABELLED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    start: TrainingStart
    labelled: LabelledRecords
    ready: TrainingReady
    shares: BatchShares
    stored: ShareStored
    published: SharePublished
    consent: TrainingConsent
    piece: ComputationPiece
    computed: PrivateComputed
    def __init__(self, start: _Optional[_Union[TrainingStart, _Mapping]] = ..., labelled: _Optional[_Union[LabelledRecords, _Mapping]] = ..., ready: _Optional[_Union[TrainingReady, _Mapping]] = ..., shares: _Optional[_Union[BatchShares, _Mapping]] = ..., stored: _Optional[_Union[ShareStored, _Mapping]] = ..., published: _Optional[_Union[SharePublished, _Mapping]] = ..., consent: _Optional[_Union[TrainingConsent, _Mapping]] = ..., piece: _Optional[_Union[ComputationPiece, _Mapping]] = ..., computed: _Optional[_Union[PrivateComputed, _Mapping]] = ...) -> None: ...

class ComputationLayout(_message.Message):
    __slots__ = ("passive_parties", "computing_party", "calibration")
    PASSIVE_PARTIES_FIELD_NUMBER: _ClassVar[int]
    COMPUTING_PARTY_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    passive_parties: _containers.RepeatedScalarFieldContainer[str]
    computing_party: str
    calibration: bool
    def __init__(self, passive_parties: _Optional[_Iterable[str]] = ..., computing_party: _Optional[str] = ..., calibration: bool = ...) -> None: ...

class PrivateComputation(_message.Message):
    __slots__ = ("features",)
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    features: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, features: _Optional[_Iterable[int]] = ...) -> None: ...

class ComputationPiece(_message.Message):
    __slots__ = ("party", "data")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    party: str
    data: bytes
    def __init__(self, party: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class PrivateComputed(_message.Message):
    __slots__ = ("epochs", "best_epoch")
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BEST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    epochs: int
    best_epoch: int
    def __init__(self, epochs: _Optional[int] = ..., best_epoch: _Optional[int] = ...) -> None: ...

class TrainingConsent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TrainingStart(_message.Message):
    __slots__ = ("config", "class_names", "record_count")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAMES_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    config: TrainingConfig
    class_names: _containers.RepeatedScalarFieldContainer[str]
    record_count: int
    def __init__(self, config: _Optional[_Union[TrainingConfig, _Mapping]] = ..., class_names: _Optional[_Iterable[str]] = ..., record_count: _Optional[int] = ...) -> None: ...

class LabelledRecords(_message.Message):
    __slots__ = ("ids", "labels")
    IDS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ids: RecordIds
    labels: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Union[RecordIds, _Mapping]] = ..., labels: _Optional[_Iterable[int]] = ...) -> None: ...

class TrainingBegin(_message.Message):
    __slots__ = ("config", "classes", "record_count", "active_party", "class_names", "layout")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_PARTY_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAMES_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    config: TrainingConfig
    classes: int
    record_count: int
    active_party: str
    class_names: _containers.RepeatedScalarFieldContainer[str]
    layout: ComputationLayout
    def __init__(self, config: _Optional[_Union[TrainingConfig, _Mapping]] = ..., classes: _Optional[int] = ..., record_count: _Optional[int] = ..., active_party: _Optional[str] = ..., class_names: _Optional[_Iterable[str]] = ..., layout: _Optional[_Union[ComputationLayout, _Mapping]] = ...) -> None: ...

class TrainingReady(_message.Message):
    __slots__ = ("features", "sub_model")
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    SUB_MODEL_FIELD_NUMBER: _ClassVar[int]
    features: int
    sub_model: SubModel
    def __init__(self, features: _Optional[int] = ..., sub_model: _Optional[_Union[SubModel, _Mapping]] = ...) -> None: ...

class TrainingStep(_message.Message):
    __slots__ = ("step", "gradient", "batch", "evaluation", "checkpoint", "restore")
    STEP_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    step: int
    gradient: Matrix
    batch: _containers.RepeatedScalarFieldContainer[int]
    evaluation: bool
    checkpoint: bool
    restore: bool
    def __init__(self, step: _Optional[int] = ..., gradient: _Optional[_Union[Matrix, _Mapping]] = ..., batch: _Optional[_Iterable[int]] = ..., evaluation: bool = ..., checkpoint: bool = ..., restore: bool = ...) -> None: ...

class BatchShares(_message.Message):
    __slots__ = ("step", "shares")
    STEP_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    step: int
    shares: Matrix
    def __init__(self, step: _Optional[int] = ..., shares: _Optional[_Union[Matrix, _Mapping]] = ...) -> None: ...

class StoreShare(_message.Message):
    __slots__ = ("from_checkpoint",)
    FROM_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    from_checkpoint: bool
    def __init__(self, from_checkpoint: bool = ...) -> None: ...

class ShareStored(_message.Message):
    __slots__ = ("digest", "privacy")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    digest: str
    privacy: Privacy
    def __init__(self, digest: _Optional[str] = ..., privacy: _Optional[_Union[Privacy, _Mapping]] = ...) -> None: ...

class Privacy(_message.Message):
    __slots__ = ("clip", "noise", "epsilon", "delta", "steps")
    CLIP_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    clip: float
    noise: float
    epsilon: float
    delta: float
    steps: int
    def __init__(self, clip: _Optional[float] = ..., noise: _Optional[float] = ..., epsilon: _Optional[float] = ..., delta: _Optional[float] = ..., steps: _Optional[int] = ...) -> None: ...

class PublishShare(_message.Message):
    __slots__ = ("model_version", "digest")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    digest: str
    def __init__(self, model_version: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class SharePublished(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TrainingProgress(_message.Message):
    __slots__ = ("epoch", "epochs", "training_loss", "validation_loss", "validation_accuracy")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    TRAINING_LOSS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    epochs: int
    training_loss: float
    validation_loss: float
    validation_accuracy: float
    def __init__(self, epoch: _Optional[int] = ..., epochs: _Optional[int] = ..., training_loss: _Optional[float] = ..., validation_loss: _Optional[float] = ..., validation_accuracy: _Optional[float] = ...) -> None: ...

class TrainingPublished(_message.Message):
    __slots__ = ("model_version", "epochs", "best_epoch", "steps", "training_records", "validation_records", "imported", "config", "privacy")
    class PartyPrivacy(_message.Message):
        __slots__ = ("party", "privacy")
        PARTY_FIELD_NUMBER: _ClassVar[int]
        PRIVACY_FIELD_NUMBER: _ClassVar[int]
        party: str
        privacy: Privacy
        def __init__(self, party: _Optional[str] = ..., privacy: _Optional[_Union[Privacy, _Mapping]] = ...) -> None: ...
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BEST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TRAINING_RECORDS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_RECORDS_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    epochs: int
    best_epoch: int
    steps: int
    training_records: int
    validation_records: int
    imported: bool
    config: TrainingConfig
    privacy: _containers.RepeatedCompositeFieldContainer[TrainingPublished.PartyPrivacy]
    def __init__(self, model_version: _Optional[str] = ..., epochs: _Optional[int] = ..., best_epoch: _Optional[int] = ..., steps: _Optional[int] = ..., training_records: _Optional[int] = ..., validation_records: _Optional[int] = ..., imported: bool = ..., config: _Optional[_Union[TrainingConfig, _Mapping]] = ..., privacy: _Optional[_Iterable[_Union[TrainingPublished.PartyPrivacy, _Mapping]]] = ...) -> None: ...
