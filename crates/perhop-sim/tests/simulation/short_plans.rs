//! Expands the short plans of tests.
//!
//! Tests number nodes, flows, pings and links' ends, and set only what matters of a queue; a plan
//! has names, which are made from the numbers.

use serde_json::{Map, Value, json};

/// Returns the name of a node, a flow or a ping, or any other value unchanged.
fn name(number: &Value) -> Value {
    number.as_u64().map_or_else(|| number.clone(), |number| json!(number.to_string()))
}

fn list(value: &mut Value) -> &mut Vec<Value> {
    value.as_array_mut().expect("a list")
}

fn rename(object: &mut Value, from: &str, to: &str) {
    let object = object.as_object_mut().expect("an object");
    if let Some(value) = object.remove(from) {
        object.insert(to.into(), value);
    }
}

/// Returns a plan with names.
pub fn expand(plan: &Value) -> Value {
    let mut plan = plan.clone();
    let network = &mut plan["network"];
    for (number, node) in list(&mut network["nodes"]).iter_mut().enumerate() {
        node["name"] = json!(number.to_string());
    }
    let mut names: Vec<String> = Vec::new();
    for link in list(&mut network["links"]) {
        *link = expand_link(link, &mut names);
    }
    if let Some(changes) = network.get_mut("changes") {
        let expanded: Vec<Value> = list(changes)
            .iter()
            .flat_map(|change| {
                let at = change["at"].clone();
                let ports = ports_of(&change["effect"]).into_iter();
                let effect = |port| expand_effect(&change["effect"], port, &names);
                ports.map(move |port| json!({"at": at, "effect": effect(port)})).collect::<Vec<_>>()
            })
            .collect();
        *changes = json!(expanded);
    }
    for kind in ["flows", "pings"] {
        for (number, each) in list(&mut plan[kind]).iter_mut().enumerate() {
            if each["name"].is_null() {
                each["name"] = json!(number.to_string());
            }
            each["from"] = name(&each["from"]);
            each["to"] = name(&each["to"]);
        }
    }
    plan
}

fn expand_link(link: &Value, names: &mut Vec<String>) -> Value {
    let mut own = link["name"].as_str().expect("a name").to_owned();
    while names.contains(&own) {
        own.push('\'');
    }
    let ends: Vec<Value> = [own.clone(), format!("{own} back")]
        .into_iter()
        .enumerate()
        .map(|(end, name_of_end)| {
            names.push(name_of_end.clone());
            let remark = link["remarks"][end].as_array().into_iter().flatten();
            let remark: Vec<Value> = remark
                .map(|rule| json!({"match": expand_rules(&rule["matches"]), "dscp": rule["dscp"]}))
                .collect();
            json!({
                "node": name(&link["ends"][end]), "name": name_of_end, "remark": remark,
                "medium": medium(link, end),
                "discipline": expand_discipline(&link["queues"][end], ""),
                "shape": link["shapes"][end],
            })
        })
        .collect();
    json!({"ends": ends, "mtu": link["mtu"]})
}

/// Settings of a link that tests state for both directions; `back` changes some for the second.
const MEDIUM: [&str; 9] = [
    "rate",
    "delay",
    "jitter",
    "variation",
    "delay_limit",
    "loss_ppb",
    "duplicate_ppb",
    "reorder",
    "overhead",
];

fn medium(link: &Value, end: usize) -> Value {
    let mut medium = json!({});
    let own = |key| link["back"].get(key).filter(|_| end == 1).or_else(|| link.get(key));
    for key in MEDIUM {
        if let Some(value) = own(key) {
            medium[key] = value.clone();
        }
    }
    rename(&mut medium, "loss_ppb", "loss");
    rename(&mut medium, "duplicate_ppb", "duplicate");
    if let Some(reorder) = medium.as_object_mut().expect("a medium").remove("reorder") {
        medium["reorder"] = json!({"share": reorder[0], "by": reorder[1]});
    }
    medium
}

/// Returns a discipline; `above` is the prefix of the names of its classes.
fn expand_discipline(short: &Value, above: &str) -> Value {
    for (key, scheduler) in [("classes", "wfq"), ("drr", "drr"), ("link-sharing", "link-sharing")] {
        if let Some(classes) = short.get(key).and_then(Value::as_array) {
            let class = |(number, class): (usize, &Value)| {
                let name = format!("{above}{number}");
                let mut class = class.clone();
                class["match"] = expand_rules(&class["matches"]);
                class["discipline"] = expand_discipline(&class["queue"], &format!("{name}/"));
                class["name"] = json!(name);
                class
                    .as_object_mut()
                    .expect("a class")
                    .retain(|key, _| !["matches", "queue"].contains(&key.as_str()));
                class
            };
            let classes: Vec<Value> = classes.iter().enumerate().map(class).collect();
            return json!({"classes": {"scheduler": scheduler, "classes": classes}});
        }
    }
    let queue = match short.as_object().and_then(|queue| queue.iter().next()) {
        Some((kind, limit)) if kind == "fifo" => json!({"fifo": {"limit": limit, "drop": "tail"}}),
        Some((kind, limit)) if kind == "head-drop" => {
            json!({"fifo": {"limit": limit, "drop": "head"}})
        }
        _ => short.clone(),
    };
    json!({"queue": queue})
}

/// Returns the rules of a filter: of conditions, or of a list of them; one in `except` excludes.
fn expand_rules(short: &Value) -> Value {
    let rule = |element: &Value| match element.get("except") {
        Some(conditions) => json!({"permit": false, "conditions": expand_match(conditions)}),
        None => json!({"permit": true, "conditions": expand_match(element)}),
    };
    match short {
        Value::Array(elements) => elements.iter().map(rule).collect(),
        one => json!([rule(one)]),
    }
}

fn expand_match(short: &Value) -> Value {
    let words = [
        ("dscps", "dscp"),
        ("protocols", "protocol"),
        ("ports", "port"),
        ("source_ports", "source_port"),
        ("destination_ports", "destination_port"),
        ("sources", "source"),
        ("destinations", "destination"),
    ];
    let mut expanded = Map::new();
    for (key, value) in short.as_object().expect("a match") {
        let known = words.iter().find(|(short, _)| short == key);
        let (_, word) = known.expect("a condition");
        let value = match *word {
            "source" | "destination" => value.as_array().expect("nodes").iter().map(name).collect(),
            _ => value.clone(),
        };
        expanded.insert((*word).into(), value);
    }
    Value::Object(expanded)
}

/// Returns the ports of an effect: a changed wire of a `link` is that of both directions.
fn ports_of(short: &Value) -> Vec<Option<u64>> {
    let (kind, effect) = short.as_object().and_then(|effect| effect.iter().next()).expect("one");
    match (effect["port"].as_u64(), effect["link"].as_u64()) {
        (None, Some(link)) if kind == "wire" => vec![Some(2 * link), Some(2 * link + 1)],
        (port, link) => vec![port.or(link.map(|link| 2 * link))],
    }
}

fn expand_effect(short: &Value, port: Option<u64>, names: &[String]) -> Value {
    let (kind, effect) = short.as_object().and_then(|effect| effect.iter().next()).expect("one");
    let mut effect = effect.clone();
    let unknown = || format!("port {}", port.unwrap_or_default());
    let on = port.and_then(|port| names.get(port as usize).cloned()).unwrap_or_else(unknown);
    effect["on"] = json!(on);
    effect.as_object_mut().expect("an effect").retain(|key, _| key != "port" && key != "link");
    rename(&mut effect, "loss_ppb", "loss");
    if kind == "queue" {
        effect["discipline"] = expand_discipline(&effect["queue"], "");
        effect.as_object_mut().expect("an effect").remove("queue");
        return json!({"discipline": effect});
    }
    json!({kind.as_str(): effect})
}
