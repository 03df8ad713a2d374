# The project's doors. Every target sets up what it needs, and says nothing when nothing is missing.
.PHONY: demo test check docs lint unit editor router e2e machine vm bench deny dist golden host-down

HOST := tests/host/host

## Compile an example and run it in a sandbox on real input
demo:
	@scripts/demo

## Run everything that CI runs
test:
	@scripts/test lint docs unit editor router e2e demo dist machine vm deny

## Checks that need no test host, in about two minutes
check:
	@scripts/test lint unit

lint unit editor router e2e machine vm deny:
	@scripts/test $@

## Build the documentation as a website in target/docs
docs:
	@scripts/docs

## Build packages in target/dist: an archive with static programs, a deb and an rpm
dist:
	@scripts/dist

## Measure speed and memory, as ratios within one run
bench:
	@scripts/bench

## Rewrite golden files and schemas after a deliberate change; review the diff
golden:
	@UPDATE_GOLDEN=1 INSTA_UPDATE=always cargo test --quiet --test it -- --skip generators::
	@INSTA_UPDATE=always cargo test --quiet --test router files::

## Stop the test host
host-down:
	@$(HOST) down
