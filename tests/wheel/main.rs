//! Both wheels against one naive model, and the situations in which other timer wheels failed.
//!
//! | room | what is inside |
//! |---|---|
//! | `model` | the sorted map that both wheels are compared with, and the comparison |
//! | `properties` | random operations, compared after every step |
//! | `directed` | uptimes, spans and jumps that random search would rarely meet |
//! | `memory` | what is allocated, held and given back |

mod directed;
mod memory;
mod model;
mod properties;
