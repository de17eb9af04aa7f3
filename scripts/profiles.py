"""Reads the CSV file of `./run MODEL --profile=x.csv`."""

import csv
import json

COLUMNS = (
    "phase,layer,site,calls,tokens,seconds,us_per_token,us_median,us_95,share,"
    "rms_in,rms_in_at_0,rms_in_after_0,rms_out,mean_over_rms,max_abs,max_channel,max_position,"
    "median_abs,p99_abs,gamma_mean_over_gamma_x"
).split(",")


def read(path):
    """Returns (description of the run, rows). Only rows of norms have an rms_in."""
    with open(path, newline="") as file:
        about = file.readline()
        reader = csv.DictReader(file)
        if not about.startswith("# {") or reader.fieldnames != COLUMNS:
            raise ValueError(f"{path}: is not a file that --profile=x.csv writes")
        rows = list(reader)
    if not rows:
        raise ValueError(f"{path}: no site was profiled")
    return json.loads(about[2:]), rows
