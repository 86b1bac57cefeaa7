//! Headers read back as written, in every version and byte order.

use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::gguf::{ElementType, Elements, Endian, GgmlType, Value};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::arrival;

fn scalar() -> impl Strategy<Value = ValueSpec> {
    prop_oneof![
        any::<u8>().prop_map(ValueSpec::U8),
        any::<i8>().prop_map(ValueSpec::I8),
        any::<u16>().prop_map(ValueSpec::U16),
        any::<i16>().prop_map(ValueSpec::I16),
        any::<u32>().prop_map(ValueSpec::U32),
        any::<i32>().prop_map(ValueSpec::I32),
        any::<u64>().prop_map(ValueSpec::U64),
        any::<i64>().prop_map(ValueSpec::I64),
        any::<f32>().prop_map(ValueSpec::F32),
        any::<f64>().prop_map(ValueSpec::F64),
        any::<bool>().prop_map(ValueSpec::Bool),
        ".{0,12}".prop_map(ValueSpec::String),
    ]
}

fn array() -> impl Strategy<Value = ValueSpec> {
    let of = |kind, values: BoxedStrategy<ValueSpec>| {
        vec(values, 0..9).prop_map(move |values| ValueSpec::Array(kind, values))
    };
    prop_oneof![
        of(ElementType::U32, any::<u32>().prop_map(ValueSpec::U32).boxed()),
        of(ElementType::I32, any::<i32>().prop_map(ValueSpec::I32).boxed()),
        of(ElementType::F32, any::<f32>().prop_map(ValueSpec::F32).boxed()),
        of(ElementType::Bool, any::<bool>().prop_map(ValueSpec::Bool).boxed()),
        of(ElementType::U64, any::<u64>().prop_map(ValueSpec::U64).boxed()),
        of(ElementType::I8, any::<i8>().prop_map(ValueSpec::I8).boxed()),
        of(ElementType::String, ".{0,12}".prop_map(ValueSpec::String).boxed()),
        of(
            ElementType::Array,
            vec(any::<u16>().prop_map(ValueSpec::U16), 0..3)
                .prop_map(|inner| ValueSpec::Array(ElementType::U16, inner))
                .boxed()
        ),
    ]
}

fn tensor() -> impl Strategy<Value = (GgmlType, Vec<u64>)> {
    (prop::sample::select(GgmlType::ALL), 0..4_u64, vec(0..9_u64, 0..4)).prop_map(|(ty, blocks, more)| {
        let mut dims = vec![blocks * ty.block()];
        dims.extend(more);
        (ty, dims)
    })
}

fn draft() -> impl Strategy<Value = HeaderSpec> {
    let metadata = btree_map("[a-z][a-z.]{0,12}", prop_oneof![scalar(), array()], 0..9);
    let tensors = btree_map("[a-z]{1,12}", tensor(), 0..9);
    (metadata, tensors).prop_map(|(metadata, tensors)| HeaderSpec {
        metadata: metadata.into_iter().collect(),
        tensors: tensors.into_iter().map(|(name, (ty, dims))| (name, ty, dims)).collect(),
    })
}

/// An integer as lists of other sizes than four bytes keep it.
fn integer(drawn: &ValueSpec) -> i64 {
    match *drawn {
        ValueSpec::U8(n) => n.into(),
        ValueSpec::I8(n) => n.into(),
        ValueSpec::U16(n) => n.into(),
        ValueSpec::I16(n) => n.into(),
        ValueSpec::U64(n) => i64::try_from(n).unwrap_or(i64::MAX),
        ValueSpec::I64(n) => n,
        _ => panic!("{drawn:?}"),
    }
}

/// Compares floats by their bits, because of NaN.
fn is(value: &Value, drawn: &ValueSpec) -> bool {
    match (value, drawn) {
        (Value::U8(a), ValueSpec::U8(b)) => a == b,
        (Value::I8(a), ValueSpec::I8(b)) => a == b,
        (Value::U16(a), ValueSpec::U16(b)) => a == b,
        (Value::I16(a), ValueSpec::I16(b)) => a == b,
        (Value::U32(a), ValueSpec::U32(b)) => a == b,
        (Value::I32(a), ValueSpec::I32(b)) => a == b,
        (Value::U64(a), ValueSpec::U64(b)) => a == b,
        (Value::I64(a), ValueSpec::I64(b)) => a == b,
        (Value::F32(a), ValueSpec::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::F64(a), ValueSpec::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Bool(a), ValueSpec::Bool(b)) => a == b,
        (Value::String(a), ValueSpec::String(b)) => **a == **b,
        (Value::Array(a), ValueSpec::Array(kind, b)) => {
            let one_by_one = match &a.elements {
                Elements::U32(all) => all.iter().map(|n| Value::U32(*n)).zip(b).all(|(a, b)| is(&a, b)),
                Elements::I32(all) => all.iter().map(|n| Value::I32(*n)).zip(b).all(|(a, b)| is(&a, b)),
                Elements::F32(all) => all.iter().map(|x| Value::F32(*x)).zip(b).all(|(a, b)| is(&a, b)),
                Elements::Bool(all) => all.iter().map(|flag| Value::Bool(*flag)).zip(b).all(|(a, b)| is(&a, b)),
                Elements::F64(all) => all.iter().map(|x| Value::F64(*x)).zip(b).all(|(a, b)| is(&a, b)),
                Elements::Integers(_, all) => all.iter().zip(b).all(|(a, b)| *a == integer(b)),
                Elements::Unread(_) => matches!(kind, ElementType::String | ElementType::Array),
            };
            a.elements.kind() == *kind && a.len == b.len() as u64 && one_by_one
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn written_headers_read_back(draft in draft(), version in 2..=3_u32, big in any::<bool>()) {
        let endian = if big { Endian::Big } else { Endian::Little };
        let bytes = write(&draft, Encoding { version, endian });
        let header = arrival::whole(&bytes).unwrap();
        prop_assert_eq!(header.version, version);
        prop_assert_eq!(header.data_start, bytes.len() as u64);
        prop_assert_eq!(header.metadata.iter().count(), draft.metadata.len());
        for ((key, value), (drawn_key, drawn)) in header.metadata.iter().zip(&draft.metadata) {
            prop_assert!(key == drawn_key && is(value, drawn), "{} {:?} {:?}", key, value, drawn);
        }
        prop_assert_eq!(header.tensors.len(), draft.tensors.len());
        for (tensor, (name, ty, dims)) in header.tensors.iter().zip(&draft.tensors) {
            prop_assert_eq!((&*tensor.name, tensor.ty, &tensor.dims), (name.as_str(), *ty, dims));
            let elements: u64 = dims.iter().product();
            prop_assert_eq!(tensor.bytes.0, elements / ty.block() * ty.block_bytes());
        }
    }
}
