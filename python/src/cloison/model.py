"""What a party says of models and trainings, as plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ._pb import common_pb2, coordinator_pb2

_COMBINERS: Final = {"sum": common_pb2.COMBINER_SUM, "concat": common_pb2.COMBINER_CONCAT}
_SOFTMAX: Final = "softmax_regression"


@dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained. The defaults are those of `[training]` and `[model]` in the active party's configuration.

    Attributes:
        epochs: Passes over the records.
        batch_size: Records per step, of a plain training.
        learning_rate: Step size of Adam, of a plain training.
        l2: Weight of the squared weights; in a private training, of whitened features.
        validation_share: Share of the records set aside to choose the epoch, in [0, 1).
        patience: Epochs without a better validation loss before training stops.
        seed: Seed of the order of the records.
        shuffle_block: Of a plain training: records of a block that is trained on before the next; 0: all are shuffled together.
        kind: The sub-model of each party, such as `softmax_regression`, `mlp` or `residual`.
        combiner: How the coordinator combines the parties' outputs: `sum` or `concat`.
        width: Outputs of each party per record; by default one per class, and 64 with `concat`.
        settings: Settings of the kind, such as `{"hidden": [8, 8]}`.
        top: Settings of the top model, for `concat` alone.
        mode: `private`, on secret shares; or `plain`, to which every passive party must consent, and which networks take.
    """

    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 0.01
    l2: float = 1e-5
    validation_share: float = 0.1
    patience: int = 10
    seed: int = 1
    shuffle_block: int = 0
    kind: str = _SOFTMAX
    combiner: str = "sum"
    width: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    top: Mapping[str, Any] | None = None
    mode: str = "private"

    def __post_init__(self) -> None:
        """Checks what the message has no room for; the server checks the rest."""
        if self.combiner not in _COMBINERS:
            raise ValueError(f"combiner is {self.combiner!r}, expected one of: {', '.join(_COMBINERS)}")
        if self.mode not in ("private", "plain"):
            raise ValueError(f"mode is {self.mode!r}, expected one of: private, plain")

    @classmethod
    def of_tables(cls, training: Mapping[str, Any], model: Mapping[str, Any]) -> TrainingConfig:
        """From the tables `[training]` and `[model]` of a configuration file."""
        own = (
            "mode",
            "epochs",
            "batch_size",
            "learning_rate",
            "l2",
            "validation_share",
            "patience",
            "seed",
            "shuffle_block",
        )
        given: dict[str, Any] = {key: training[key] for key in own if key in training}
        given |= {key: model[key] for key in ("kind", "combiner", "width", "top") if key in model}
        settings = {key: value for key, value in model.items() if key not in {"kind", "combiner", "width", "top"}}
        return cls(**given, settings=settings)

    def message(self) -> common_pb2.TrainingConfig:
        """As a message; `ValueError` if a number does not fit its field."""
        made = common_pb2.TrainingConfig(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            l2=self.l2,
            validation_share=self.validation_share,
            patience=self.patience,
            seed=self.seed,
            shuffle_block=self.shuffle_block,
            private=self.mode == "private",
        )
        model = common_pb2.ModelConfig(
            combiner=_COMBINERS[self.combiner],
            kind=self.kind,
            settings=json.dumps(dict(self.settings)) if self.settings else "",
        )
        if self.width is not None:
            model.width = self.width
        if self.top is not None:
            model.top = json.dumps(dict(self.top))
        # Softmax regression, summed, is said by saying nothing.
        if (
            (self.kind, self.combiner) != (_SOFTMAX, "sum")
            or self.settings
            or self.width is not None
            or self.top is not None
        ):
            made.model.CopyFrom(model)
        return made


@dataclass(frozen=True)
class Progress:
    """One epoch of a training. Losses are means in nats; a private training opens none."""

    epoch: int
    epochs: int
    training_loss: float | None
    validation_loss: float | None
    validation_accuracy: float | None

    @classmethod
    def of(cls, message: common_pb2.TrainingProgress) -> Progress:
        """From a message."""
        return cls(
            message.epoch,
            message.epochs,
            message.training_loss if message.HasField("training_loss") else None,
            message.validation_loss if message.HasField("validation_loss") else None,
            message.validation_accuracy if message.HasField("validation_accuracy") else None,
        )


@dataclass(frozen=True)
class Privacy:
    """Differential privacy of one party's parameters in one training, as that party says."""

    clip: float
    noise: float
    epsilon: float
    delta: float
    steps: int

    @classmethod
    def of(cls, message: common_pb2.Privacy) -> Privacy:
        """From a message."""
        return cls(message.clip, message.noise, message.epsilon, message.delta, message.steps)


@dataclass(frozen=True)
class Published:
    """A model that was put in service.

    Attributes:
        model_version: Its version.
        epochs: Epochs run.
        best_epoch: The epoch whose parameters were published, from 1.
        steps: Optimiser steps run.
        training_records: Records trained on.
        validation_records: Records that chose the epoch.
        imported: The parameters came from files; nothing was trained.
        privacy: What each party that trained with privacy says, by party.
    """

    model_version: str
    epochs: int
    best_epoch: int
    steps: int
    training_records: int
    validation_records: int
    imported: bool
    privacy: dict[str, Privacy]

    @classmethod
    def of(cls, message: common_pb2.TrainingPublished) -> Published:
        """From a message."""
        return cls(
            message.model_version,
            message.epochs,
            message.best_epoch,
            message.steps,
            message.training_records,
            message.validation_records,
            message.imported,
            {told.party: Privacy.of(told.privacy) for told in message.privacy},
        )


@dataclass(frozen=True)
class PassivePart:
    """A passive party's part in a model."""

    name: str
    features: int
    kind: str
    privacy: Privacy | None


@dataclass(frozen=True)
class Model:
    """The model in service.

    Attributes:
        version: Its version.
        class_names: The classes, in the order of the scores.
        active_features: Features of the active party.
        active_kind: Its sub-model.
        passive_parties: The passive parties, in the order in which their outputs are combined.
        policy: What is done to the scores of the live service, in words: `none`, or defenses in order.
        training: How the model came to be.
    """

    version: str
    class_names: tuple[str, ...]
    active_features: int
    active_kind: str
    passive_parties: tuple[PassivePart, ...]
    policy: str
    training: Published

    @classmethod
    def of(cls, message: coordinator_pb2.DescribeModelResponse) -> Model:
        """From a message."""
        kinds = [part.kind for part in message.model.passive] or [_SOFTMAX] * len(message.passive_parties)
        parts = tuple(
            PassivePart(
                party.name, party.features, kind, Privacy.of(party.privacy) if party.HasField("privacy") else None
            )
            for party, kind in zip(message.passive_parties, kinds, strict=False)
        )
        return cls(
            message.model_version,
            tuple(message.class_names),
            message.active_features,
            message.model.active.kind or _SOFTMAX,
            parts,
            " then ".join(_defense(defense) for defense in message.policy.defenses) or "none",
            Published.of(message.training),
        )


def _defense(defense: common_pb2.Defense) -> str:
    def shown(parameter: common_pb2.Defense.Parameter) -> str:
        kind = parameter.WhichOneof("value")
        if kind == "numbers":
            return str(list(parameter.numbers.values))
        value = getattr(parameter, kind) if kind else ""
        return str(value).lower() if kind == "truth" else str(value)

    settings = ", ".join(f"{parameter.name} = {shown(parameter)}" for parameter in defense.parameters)
    return f"{defense.name} ({settings})" if settings else defense.name
