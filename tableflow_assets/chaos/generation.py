"""One set of topics with their producers and judge, for a limited number of faults."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import yaml

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.retry import poll_until
from tableflow_assets.chaos.feed import FEEDS, Feed
from tableflow_assets.chaos.judge import Judge, Verify
from tableflow_assets.chaos.records import Messages, create_topics
from tableflow_assets.chaos.topics import settings_for, topics_of_a_run
from tableflow_assets.settings.settings import Settings
from tableflow_assets.settings.values import age_text
from tableflow_assets.stack import connections

RECORDS_WITHIN_SECONDS = 120.0
POLL_SECONDS = 0.1


class Generation:
    """``start`` it, break it, ``finish`` it. ``stop`` is for when something failed."""

    def __init__(self, settings: Settings, seed: int, verify: Verify) -> None:
        self._topics = topics_of_a_run()
        self._settings = settings_for(self._topics, settings)
        self._seed = seed
        self._feeds: list[Feed] = []
        self.names = [topic.name for topic in self._topics]
        self.judge = Judge(self._settings, self._topics, verify)

    def write_settings(self, file: Path) -> None:
        """For the drivers, which then know only these topics."""
        topics = {
            name: {
                option: age_text(value) if isinstance(value, timedelta) else value
                for option, value in options.model_dump(exclude_unset=True).items()
            }
            for name, options in self._settings.topics.items()
        }
        file.write_text(yaml.safe_dump({"topics": topics}))

    def start(self) -> None:
        kafka = connections.kafka_address(self._settings)
        schema_ids = create_topics(self._topics, self._settings)
        for topic in self._topics:
            messages = Messages(topic, schema_ids[topic.name], self._seed)
            self._feeds.append(FEEDS[topic.producer](topic, kafka, messages, self._seed))
            self._feeds[-1].start()

    def stop(self) -> None:
        for feed in self._feeds:
            feed.stop()

    def finish(self) -> None:
        """Afterwards no record is in flight and no transaction is open."""
        self.stop()
        for feed in self._feeds:
            feed.wait()

    def await_records(self) -> None:
        """A run with nothing to commit reaches no boundary, so it cannot be broken."""
        bad_feeds = [feed for feed in self._feeds if feed.topic.bad_records]
        for feed in bad_feeds:
            feed.send_a_bad_record()

        def have_arrived() -> bool:
            have_bad_ones = all(feed.has_bad_arrived for feed in bad_feeds)
            if have_bad_ones and len(self.judge.behind()) == len(self.names):
                return True
            for feed in self._feeds:
                feed.check()
            return False

        if not poll_until(bool, have_arrived, every=POLL_SECONDS, within=RECORDS_WITHIN_SECONDS):
            reasons = "; ".join(feed.last_error for feed in self._feeds if feed.last_error)
            raise TableflowError(
                f"No new records within {RECORDS_WITHIN_SECONDS:.0f} s, from producers that"
                f" never pause. {reasons}",
                "Is Kafka there? Read its log in the state folder.",
            )

    def wrong_dead_letters(self) -> list[str]:
        """Once everything is caught up, exactly the undecodable records must be dead letters."""
        wrong = []
        for feed in self._feeds:
            name, letters = feed.topic.name, self.judge.dead_letters[feed.topic.name]
            if not feed.bad_acknowledged <= letters <= feed.bad_sent:
                bounds = f"{feed.bad_acknowledged} to {feed.bad_sent}"
                wrong.append(
                    f"{name}: {bounds} records cannot be decoded, {letters} are dead letters."
                )
        return wrong
