"""NodeClassifier on plain tables, beside scikit-learn's classifiers."""

from __future__ import annotations

import time

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ncgnn import NodeClassifier

TABLES = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
CLASSIFIERS = {
    "logistic regression": LogisticRegression(max_iter=1000),
    "10 nearest neighbors": KNeighborsClassifier(10),
    "random forest": RandomForestClassifier(random_state=0),
    "NodeClassifier()": NodeClassifier(),
    "its own probabilities": NodeClassifier(options={"calibration": "none"}),
}


def main() -> None:
    for table, load in TABLES.items():
        X, y = load(return_X_y=True)
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        for name, classifier in CLASSIFIERS.items():
            scaled = make_pipeline(StandardScaler(), classifier)
            started = time.perf_counter()
            found = cross_val_predict(scaled, X, y, cv=folds, method="predict_proba")
            seconds = (time.perf_counter() - started) / 5
            accuracy, loss = np.mean(found.argmax(1) == y), log_loss(y, found)
            print(f"{table:14} {name:22} {accuracy:.2%} {loss:.3f} {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
