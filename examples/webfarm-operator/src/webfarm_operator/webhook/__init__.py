"""The webhooks: conversion, defaults and checks."""
