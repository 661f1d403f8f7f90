-- The bits that an answer under these passive parameters and this policy tells of its record at most (decimal digits), or NULL where no
-- finite bound is known. `model` is the first version with the parameters. Answers of before this table have no row.
CREATE TABLE bits (
    model BIGINT NOT NULL REFERENCES models (id),
    policy BIGINT NOT NULL REFERENCES policies (id),
    bits TEXT,
    PRIMARY KEY (model, policy)
) /* clustered */;
