//! The page, whose blocks are run as tests. Three of the runtimes are Linux's.
#![cfg(all(doctest, target_os = "linux"))]
#![doc = include_str!("../README.md")]
