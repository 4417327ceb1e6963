"""Setuptools entry point; all settings live in pyproject.toml."""

from setuptools import setup

setup()
