"""fusiond's producer; what runs is said in its file."""

import os

from fusiond import Client

client = Client(os.environ["RELIABILITY_URL"])


def enqueue(number, sleep):
    client.enqueue("run", number, sleep)
