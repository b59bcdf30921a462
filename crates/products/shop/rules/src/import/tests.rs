//! Tests of `import`.

use ledger::Rate;

use super::*;
use crate::testing::{NOW, acme};
use crate::{Discount, Minor};

fn csv(text: &str) -> Result<Catalogue, Vec<CatalogueError>> {
    read(&acme(), CatalogueFormat::Csv, text, NOW)
}

fn json(text: &str) -> Result<Catalogue, Vec<CatalogueError>> {
    read(&acme(), CatalogueFormat::Json, text, NOW)
}

fn told(read: Result<Catalogue, Vec<CatalogueError>>) -> Vec<String> {
    read.unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_table_is_products_with_their_variants() {
    let text = "id,name,price,stock,sku,tags,option:Size,description\r\n\
                hat,Sun hat,19.90,5,H1,summer|sun,,\"Wide, and\nlight \"\"straw\"\"\"\r\n\
                felt,Felt hat,30,2,F-S,winter,S,Warm\r\n\
                \r\n\
                felt,Felt hat,32.50,,F-L,winter,L,Warm\r\n";
    let read = csv(text).unwrap();
    let [hat, felt] = &read.products[..] else { panic!("{read:?}") };
    assert_eq!((&*hat.product.description, hat.product.price), ("Wide, and\nlight \"straw\"", Minor(1_990)));
    assert_eq!((hat.product.variants.len(), &hat.stock[..]), (1, &[Some(5)][..]));
    assert_eq!(hat.product.variants[0].sku.as_deref(), Some("H1"));
    assert_eq!(hat.product.tags, ["summer".into(), "sun".into()]);
    assert_eq!(felt.stock, [Some(2), None]);
    let ids: Vec<&str> = felt.product.variants.iter().map(|variant| variant.id.as_str()).collect();
    assert_eq!(ids, ["s", "l"]);
    let [small, large] = &felt.product.variants[..] else { panic!() };
    assert_eq!((felt.product.price_of(small), felt.product.price_of(large)), (Minor(3_000), Minor(3_250)));
    assert!(small.counted && !large.counted);
}

#[test]
fn every_fault_of_a_table_is_told_with_its_line() {
    let text = "id,name,price,stock\n\
                ok,Fine,1,1\n\
                a,A,one,1\n\
                \"b\",\"two\nlines\",1\n\
                c,C,1,many\n\
                ,D,1,1\n\
                e,,1,1\n";
    assert_eq!(
        told(csv(text)),
        [
            "line 4: it has 3 cells, the first line has 4",
            "line 6: stock must be a whole number, or nothing",
            "line 7: the id is missing",
            "line 3: product \"a\": price must be a decimal number such as \"19.90\"",
            "line 8: product \"e\": slug is needed here",
        ]
        .map(|says| says.replace("slug is needed here", "name must not be empty"))
    );
    assert_eq!(
        told(csv(""))[0],
        "line 1: there is nothing; the first line names the columns, such as id,name,price,stock"
    );
}

#[test]
fn a_column_that_is_missing_unknown_or_there_twice_is_told() {
    let unknown = "line 1: unknown column \"pirce\"; did you mean \"price\"? There are id, name, slug, subtitle, \
                   description, price, price_minor, stock, sku, variant_id, tags, media, is_digital, downloads and \
                   option:<name>";
    let missing = |name: &str| format!("line 1: there is no column {name:?}; the first line names the columns");
    // A misspelled column has two errors: the missing column and the unknown one.
    assert_eq!(told(csv("id,name,pirce\na,A,1\n")), [missing("price"), unknown.to_owned()]);
    assert_eq!(told(csv("id,price\na,1\n")), [missing("name")]);
    assert_eq!(told(csv("stock\n1\n")), [missing("id"), missing("name"), missing("price")]);
    for (written, meant) in [
        ("ID", "id"),
        ("Stock", "stock"),
        ("priceMinor", "price_minor"),
        ("tag", "tags"),
        ("option-Size", "option:<name>"),
    ] {
        let faults = told(csv(&format!("id,name,price,{written}\n")));
        assert!(faults[0].contains(&format!("{written:?}; did you mean {meant:?}?")), "{faults:?}");
    }
    assert_eq!(told(csv("id,name,price,id\n")), ["line 1: the column \"id\" is there twice"]);
    let nameless = "line 1: column 4 has no name; give it one, or take it out";
    assert_eq!(told(csv("id,name,price,\n")), [nameless]);
    assert_eq!(told(csv("id,name,price,option:\n")), [nameless]);
    assert_eq!(csv("id,name,price_minor\na,A,150\n").unwrap().products[0].product.price, Minor(150));
    // A quoted part of the input is bounded.
    assert!(told(csv(&format!("id,name,price,{}\n", "x".repeat(10_000))))[0].len() < 300);
}

#[test]
fn quotes_hold_commas_line_breaks_and_quotes() {
    let text = "\u{feff}\r\n\"id\",name,\"price\",tags,description\r\n\
                a,\"A, \"\"the\"\" first\",\"1.50\",\" x | y,z |\",\"one\r\ntwo\n\n\"\r\n\
                \n\
                b,5\" pipe,2,,\r\n\
                \"c\",C,\"\",,\"\"";
    let faults = told(csv(text));
    // After a mark, empty lines and broken cells the lines are those an editor shows.
    assert_eq!(faults.len(), 1);
    assert!(faults[0].starts_with("line 9: product \"c\": price must be"), "{faults:?}");
    let read = csv(&text.replace(",C,\"\",", ",C,\"3\",")).unwrap();
    let names: Vec<&str> = read.products.iter().map(|counted| &*counted.product.name).collect();
    assert_eq!(names, ["A, \"the\" first", "5\" pipe", "C"]);
    let first = &read.products[0].product;
    assert_eq!((&*first.description, first.price), ("one\r\ntwo", Minor(150)));
    assert_eq!(first.tags, ["x".into(), "y,z".into()]);
}

#[test]
fn lines_end_in_one_way_or_another() {
    let text = "id,name,price\na,\"A\",1\n\nb,B,2\nc,C,free\n";
    let faults = ["line 5: product \"c\": price must be a decimal number such as \"19.90\""];
    for end in ["\n", "\r\n", "\r"] {
        assert_eq!(told(csv(&text.replace('\n', end))), faults, "{end:?}");
        assert_eq!(told(csv(text.replace('\n', end).trim_end())), faults, "{end:?}");
    }
}

#[test]
fn a_wrong_quote_is_told_where_it_is() {
    let open = |line| vec![format!("line {line}: a quote is opened and never closed")];
    assert_eq!(told(csv("id,name,price\na,\"A,1\nb,B,1\nc,C,1\n")), open(2));
    assert_eq!(told(csv("id,name,price\r\na,A,1\r\nb,B,\"1\r\n")), open(3));
    assert_eq!(told(csv("id,name,price\na,A,\"")), open(2));
    assert_eq!(told(csv("id,name,price\na,A,\"1\"\"")), open(2));
    assert_eq!(told(csv("id,\"name")), open(1));
    let after = |line| {
        let says = "after a quoted cell comes a comma or the end of the line; a quote within it is written twice";
        vec![format!("line {line}: {says}")]
    };
    assert_eq!(told(csv("id,name,price\na,\"A\"b,1\n")), after(2));
    assert_eq!(told(csv("id,name,price\na,\"A \"big\" hat\",1\n")), after(2));
    assert_eq!(told(csv("id,name,price\na,\"two\nlines\" ,1\n")), after(3));
    assert_eq!(told(csv("id,\"na\"me,price\na,A,1\n")), after(1));
    // Mistakes before it are reported as well; those after it cannot be separated.
    let both = told(csv("id,name,price\na,A,free\nb,\"B\"b,1\nc,C,free\n"));
    assert_eq!((both.len(), both[0].starts_with("line 3: after"), both[1].starts_with("line 2: ")), (2, true, true));
}

#[test]
fn more_products_than_are_taken_are_told_at_the_first_too_many() {
    let most = |format, text: &str| Reader { site: &acme(), now: NOW, most: 2, wrong: Vec::new() }.read(format, text);
    let rows = "id,name,price,option:Size\na,A,1,S\nb,B,1,S\na,A,1,L\n";
    assert_eq!(most(CatalogueFormat::Csv, rows).unwrap().products.len(), 2);
    let three = format!("{rows}c,C,1,S\nd,D,free,S\n");
    assert_eq!(told(most(CatalogueFormat::Csv, &three)), ["line 5: more than 2 products; import them in parts"]);
    let list = "[\n{\"id\":\"a\",\"name\":\"A\",\"price\":\"1\"},\n{\"id\":\"b\",\"name\":\"B\",\"price\":\"1\"}\n]";
    assert_eq!(most(CatalogueFormat::Json, list).unwrap().products.len(), 2);
    let three = list.replace("\n]", ",\n{\"id\":\"c\"}\n]");
    assert_eq!(told(most(CatalogueFormat::Json, &three)), ["line 4: more than 2 products; import them in parts"]);
}

#[test]
fn json_is_a_list_or_an_object_with_coupons() {
    let list = r#"[{"id":"hat","name":"Sun hat","price":"19.90","stock":3,"media":["https://x.example/a.png"]}]"#;
    assert_eq!(json(list).unwrap().products[0].stock, [Some(3)]);
    let whole = r#"{
        "products": [{"id":"felt","name":"Felt","price":{"amount":3000,"currency":"USD"},
            "variants":[{"options":{"Size":"S"},"stock":1},{"id":"l","options":{"Size":"L"},"price":"31"}]}],
        "coupons": [{"code":"ten","percent":"10","limit":2},{"code":"FIVE","amount":"5","least":"20"}]
    }"#;
    let read = json(whole).unwrap();
    assert_eq!(read.products[0].stock, [Some(1), None]);
    assert_eq!((&*read.coupons[0].code, read.coupons[0].off), ("TEN", Discount::Percent(Rate::TENTH)));
    assert_eq!((read.coupons[1].off, read.coupons[1].least), (Discount::Amount(Minor(500)), Minor(2_000)));
}

#[test]
fn every_fault_of_json_is_told_with_its_line() {
    let text = "[\n {\"id\":\"a\",\"name\":\"A\",\"price\":19.9},\n {\"id\":\"b\",\n  \"nme\":\"B\"},\n {\"id\":\"c c\",\
                \"name\":\"C\",\"price\":\"1\"}\n]";
    let faults = told(json(text));
    assert!(faults[0].starts_with("line 2: product \"a\": price must be a text such as"), "{faults:?}");
    assert!(faults[1].starts_with("line 4: unknown field `nme`"), "{faults:?}");
    assert!(faults[2].starts_with("line 5: product \"c c\": an id has"), "{faults:?}");
    assert!(told(json("[\n{\"id\":1,]"))[0].starts_with("line 2"));
    let twice = r#"[{"id":"a","name":"A","price":"1"},{"id":"a","name":"B","price":"1"}]"#;
    assert_eq!(told(json(twice)), ["line 1: two products have the id \"a\"; give each its own"]);
    let apart = format!("\u{feff}{}", twice.replace(",{", ",\n\n{"));
    assert_eq!(told(json(&apart)), ["line 3: two products have the id \"a\"; give each its own"]);
    // Coupons may come first.
    let first = "{\"coupons\":[\n{\"code\":\"A\"}],\n\"products\":[\n{\"id\":\"a\",\"name\":\"\",\"price\":\"1\"}]}";
    let faults = told(json(first));
    assert!(faults[0].starts_with("line 4: product") && faults[1].starts_with("line 2: coupon"), "{faults:?}");
    let euro = r#"[{"id":"a","name":"A","price":{"amount":1,"currency":"EUR"}}]"#;
    assert!(told(json(euro))[0].contains("must be in USD"));
}

#[test]
fn faults_without_end_are_cut_short() {
    let rows: String = (0..1_000).map(|n| format!("p{n},P,free\n")).collect();
    assert_eq!(csv(&format!("id,name,price\n{rows}")).unwrap_err().len(), MAX_FAULTS);
}

/// A cell as a writer may spell it: in quotes where they are needed, and sometimes where they are not.
fn written(cell: &str, quoted: bool) -> String {
    if quoted || cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

proptest::proptest! {
    #[test]
    fn what_is_written_is_read(
        rows in proptest::collection::vec(("[a-z,\"\n\r|é ]{0,12}", 0..100_000i64, proptest::bool::ANY), 1..20),
        end in proptest::sample::select(vec!["\n", "\r\n", "\r"]),
        empty in proptest::sample::select(vec![0, 1, 3]),
    ) {
        let mut text = format!("id,price_minor,name,description{end}");
        let mut lines = Vec::new();
        for (n, (words, price, quoted)) in rows.iter().enumerate() {
            text += &end.repeat(empty);
            lines.push(Lines::new(&text).at(text.len()));
            let cells = [format!("p{n}"), price.to_string(), format!("N {words}!"), format!("D{words}.")];
            text += &cells.map(|cell| written(&cell, *quoted)).join(",");
            text += end;
        }
        let read = csv(&text).unwrap();
        proptest::prop_assert_eq!(read.products.len(), rows.len());
        for (counted, (words, price, _)) in read.products.iter().zip(&rows) {
            proptest::prop_assert_eq!(&*counted.product.name, format!("N {words}!"));
            proptest::prop_assert_eq!(&*counted.product.description, format!("D{words}."));
            proptest::prop_assert_eq!(counted.product.price, Minor(*price));
        }
        // With an error in each row, each is reported with its own line.
        let faults = csv(&text.replace("price_minor", "stock").replacen("description", "price", 1)).unwrap_err();
        let told: Vec<usize> = faults.iter().map(|wrong| wrong.line).collect();
        proptest::prop_assert_eq!(told, lines);
    }

    #[test]
    fn any_text_is_read_without_harm(text in "[a-z,\"\n\r{}\\[\\]:0-9]{0,200}") {
        drop(csv(&text));
        drop(csv(&format!("id,name,price,stock\n{text}")));
        drop(json(&text));
    }
}
