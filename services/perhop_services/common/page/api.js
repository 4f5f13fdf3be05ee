// Requests to the service, and who is logged in.

let csrf = "";
let role = "";

// Whether who is logged in looks after everybody's reservations.
export const mayOperate = () => role !== "requester";

export class Refused extends Error {
  constructor(status, message, detail) {
    super(message);
    this.status = status;
    this.detail = detail;
  }
}

export async function api(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers } };
  if (method !== "GET") options.headers["X-CSRF-Token"] = csrf;
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(`/api${path}`, options);
  } catch {
    throw new Refused(0, "The service does not answer.");
  }
  if (answer.status === 204) return null;
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, said.error ?? answer.statusText, said.detail);
  return said;
}

export async function session() {
  try {
    ({ csrf, role } = await api("GET", "/session"));
    return true;
  } catch {
    return false;
  }
}

export async function logIn(name, password) {
  ({ csrf, role } = await api("POST", "/session", { name, password }));
}

export async function logOut() {
  await api("DELETE", "/session").catch(() => null);
  csrf = "";
}
