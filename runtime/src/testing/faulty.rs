pub struct FaultyCheckpointer; pub enum Fault{}
