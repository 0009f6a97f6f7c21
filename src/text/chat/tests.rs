use serde_json::json;

use super::*;

fn chat(template: &str, arguments: Json) -> Chat {
    let tokens = [("bos_token".to_owned(), "<s>".to_owned())];
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    Chat::new(&json!(template), &tokens, &arguments, None).unwrap()
}

fn rendered(template: &str, messages: &[Message<'_>]) -> String {
    chat(template, json!({})).render(messages, None).unwrap()
}

#[test]
fn a_text_is_the_message_of_a_user() {
    let template = "{{ bos_token }}{% for m in messages %}\n    <{{ m.role }}>{{ m['content'] | trim }}\n{% endfor %}\n\
                    {%- if add_generation_prompt %}<answer>{% endif %}";
    assert_eq!(rendered(template, &[("system", "a"), ("user", " b ")]), "<s>    <system>a\n    <user>b\n");
    let asked = chat(template, json!({"add_generation_prompt": true}));
    assert!(asked.render(&[("user", "b")], None).unwrap().ends_with("<user>b\n<answer>"));
}

#[test]
fn what_python_and_transformers_add_is_there() {
    for (template, expected) in [
        ("{{ messages[::-1][0].content.strip().split('b')[-1].startswith('c') }}", "True"),
        ("{% generation %}{{ messages[0].content }}{%- endgeneration %}", " abc "),
        ("{{ messages | tojson }}", r#"[{"role": "user", "content": " abc "}]"#),
        ("{% set ns = namespace(n=1) %}{% for m in messages %}{% set ns.n = 2 %}{% endfor %}{{ ns.n }}", "2"),
        ("{% for m in messages %}{% break %}{% endfor %}{{ tools }}", "None"),
        ("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(messages[0].role) }}", "[user]"),
        ("{% if strftime_now is defined %}{{ strftime_now('%Y') | length }}{% endif %}", "4"),
        ("{% if messages[0].content is string and 'content' in messages[0] %}s{% endif %}", "s"),
        ("{{ undefined_name }}x", "x"),
    ] {
        assert_eq!(rendered(template, &[("user", " abc ")]), expected, "{template}");
    }
    let refused = chat("{{ raise_exception('no system') }}", json!({})).render(&[("user", "a")], None);
    assert!(refused.unwrap_err().to_string().ends_with("no system"));
}

#[test]
fn the_template_tells_its_form() {
    let form = |template: Json| {
        Chat::new(&template, &[], &Map::new(), None).map(|chat| chat.form()).map_err(|error| error.to_string())
    };
    assert_eq!(form(json!("{{ messages[0].content }}")), Ok(Form::Flat));
    assert_eq!(form(json!("{% if c.type == 'text' %}{% endif %}")), Ok(Form::Structured));
    assert_eq!(form(json!({"default": "{{ messages[0].content }}"})), Ok(Form::Structured));
    assert_eq!(form(json!([{"name": "default", "template": ""}])), Ok(Form::Structured));
    assert!(form(json!({"other": ""})).unwrap_err().contains("[\"other\"]"));
    assert!(form(json!("{% for %}")).unwrap_err().contains("the chat template"));
    let named = json!({"chat_template": "other"});
    let chat = Chat::new(&json!({"other": "o"}), &[], named.as_object().unwrap(), None).unwrap();
    assert_eq!(chat.render(&[("user", "a")], None).unwrap(), "o");
}

#[test]
fn pairs_need_both_roles() {
    let lost =
        chat("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}", json!({}));
    assert!(lost.check_pairs(None).unwrap_err().to_string().contains("leaves out a text"));
    chat("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}", json!({})).check_pairs(None).unwrap();
}

#[test]
fn dates_are_those_of_the_calendar() {
    let date = |seconds| environment::date("%a %d %b %Y %j %H:%M:%S", seconds).unwrap();
    assert_eq!(date(0), "Thu 01 Jan 1970 001 00:00:00");
    assert_eq!(date(951_868_799), "Tue 29 Feb 2000 060 23:59:59");
    assert_eq!(date(1_790_000_000), "Mon 21 Sep 2026 264 14:13:20");
    assert!(environment::date("%Q", 0).is_err());
}
