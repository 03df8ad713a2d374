//! drawing
use super::*;pub fn render_text(_d:&Diagnostic,_s:&SourceMap,_c:bool)->String{String::new()}
pub fn render_json(_d:&Diagnostics,_s:&SourceMap)->String{String::new()}
