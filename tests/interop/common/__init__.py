"""What the tests of every protocol need: a broker as a process, programs of npm, a run of test modules."""
