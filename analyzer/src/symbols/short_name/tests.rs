use super::*;

fn assert_short(cases: &[(&str, &str)]) {
    for (full, short) in cases {
        assert_eq!(short_name(full), *short, "of {full}");
    }
}

#[test]
fn cpp() {
    assert_short(&[
        ("TerrainTile::load(std::string const&)", "TerrainTile::load"),
        ("main", "main"),
        (
            "engine::world::TerrainTile::load(int) const",
            "engine::world::TerrainTile::load",
        ),
        (
            "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(__gnu_cxx::__normal_iterator<int*, std::vector<int, std::allocator<int> > >, int const&)",
            "std::vector::_M_realloc_insert",
        ),
        (
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
            "std::basic_string::_M_create",
        ),
        (
            "std::__1::basic_string<char>::append(char const*)",
            "std::basic_string::append",
        ),
        ("(anonymous namespace)::LoadAll(char const*)", "LoadAll"),
        (
            "game::(anonymous namespace)::Pool::grow()",
            "game::Pool::grow",
        ),
        ("operator new(unsigned long)", "operator new"),
        (
            "operator new[](unsigned long, std::align_val_t)",
            "operator new[]",
        ),
        ("operator delete(void*)", "operator delete"),
        (
            "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
            "std::operator<<",
        ),
        ("Vec3::operator-(Vec3 const&) const", "Vec3::operator-"),
        ("Vec3::operator->()", "Vec3::operator->"),
        ("Table::operator[](unsigned long)", "Table::operator[]"),
        (
            "bool operator< <int>(Pair<int> const&, Pair<int> const&)",
            "operator<",
        ),
        ("Handle::operator bool() const", "Handle::operator bool"),
        (
            "Path::operator std::string() const",
            "Path::operator std::string",
        ),
        ("operator\"\" _kib(unsigned long long)", "operator\"\" _kib"),
        (
            "Spawn(int)::{lambda(Entity&)#1}::operator()(Entity&) const",
            "Spawn::{lambda#1}",
        ),
        (
            "Level::enter()::{lambda()#2}::operator()() const::{lambda(int)#1}::operator()(int) const",
            "Level::enter::{lambda#2}::{lambda#1}",
        ),
        ("Callback::operator()(int) const", "Callback::operator()"),
        (
            "decltype(auto) std::visit<Draw, Shape&>(Draw&&, Shape&)",
            "std::visit",
        ),
        (
            "unsigned long hash<char const*>(char const* const&)",
            "hash",
        ),
        ("non-virtual thunk to Window::OnPaint()", "Window::OnPaint"),
        ("Array<(Kind)3, (1 > 0)>::resize(int)", "Array::resize"),
        ("Foo::bar[abi:cxx11](int)", "Foo::bar"),
        (
            "std::function<void (int)>::operator()(int) const",
            "std::function::operator()",
        ),
        ("Widget::~Widget()", "Widget::~Widget"),
        ("operatorium(int)", "operatorium"),
        ("Foo::run() &&", "Foo::run"),
        (
            "NewGRFSpriteLayout::Clone(DrawTileSprites const*) [clone .part.0]",
            "NewGRFSpriteLayout::Clone",
        ),
    ]);
}

#[test]
fn rust() {
    assert_short(&[
        ("alloc::vec::Vec<T,A>::push", "Vec::push"),
        (
            "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
            "<Vec as Drop>::drop",
        ),
        ("<alloc::vec::Vec<u8>>::reserve::<u8>", "Vec::reserve"),
        ("<Foo as Bar>::baz", "<Foo as Bar>::baz"),
        (
            "<game::Foo<'_> as game::traits::Bar<u32>>::baz",
            "<Foo as Bar>::baz",
        ),
        ("skirmish::hits::spawn_label", "skirmish::hits::spawn_label"),
        (
            "skirmish::hits::spawn_label::{{closure}}",
            "skirmish::hits::spawn_label::{{closure}}",
        ),
        (
            "skirmish::hits::spawn_label::{closure#0}",
            "skirmish::hits::spawn_label::{closure#0}",
        ),
        (
            "core::ptr::drop_in_place<alloc::string::String>",
            "ptr::drop_in_place<String>",
        ),
        (
            "core::ptr::drop_in_place::<alloc::vec::Vec<game::Tile>>",
            "ptr::drop_in_place<Vec>",
        ),
        ("alloc::alloc::exchange_malloc", "alloc::exchange_malloc"),
        ("alloc::raw_vec::finish_grow", "raw_vec::finish_grow"),
        (
            "std::rt::lang_start::<()>::{closure#0}",
            "std::rt::lang_start::{closure#0}",
        ),
        (
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "FnOnce::call_once{{vtable.shim}}",
        ),
        (
            "alloc::str::<impl alloc::borrow::ToOwned for str>::to_owned",
            "<str as ToOwned>::to_owned",
        ),
        ("core::slice::<impl [T]>::sort_by", "[T]::sort_by"),
        (
            "game::_::<impl serde::ser::Serialize for game::Save>::serialize",
            "<Save as Serialize>::serialize",
        ),
        (
            "<&mut F as core::ops::FnOnce<(A, B)>>::call_once",
            "<&mut F as FnOnce>::call_once",
        ),
        (
            "<alloc::boxed::Box<dyn core::ops::FnMut() -> u8 + core::marker::Send> as core::ops::FnMut<()>>::call_mut",
            "<Box as FnMut>::call_mut",
        ),
        (
            "<dyn game::Component + core::marker::Send>::update",
            "dyn Component::update",
        ),
        (
            "<[u8; 4] as core::fmt::Debug>::fmt",
            "<[u8; 4] as Debug>::fmt",
        ),
        ("<fn(u8) -> u8 as game::Call>::call", "<fn as Call>::call"),
        ("<T as core::convert::Into<U>>::into", "<T as Into>::into"),
        ("<<game::A as game::B>::C as game::D>::e", "<C as D>::e"),
        (
            "<game::load::{closure#0} as core::ops::FnOnce<()>>::call_once",
            "<load::{closure#0} as FnOnce>::call_once",
        ),
        ("std::io::Write::write_fmt", "Write::write_fmt"),
    ]);
}

#[test]
fn what_cannot_be_taken_apart_stays_whole() {
    for name in [
        "",
        "sub_1a2b30",
        "foo<int",
        "foo(",
        "<a as",
        ")",
        "::",
        "void (*table(int))(char)",
        "日本::語",
    ] {
        assert_eq!(short_name(name), name);
    }
    let deep = format!("{}x{}", "<&".repeat(2000), ">::f".repeat(2000));
    assert_eq!(short_name(&deep), deep);
}
