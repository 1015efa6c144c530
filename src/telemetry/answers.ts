import { type Family, labels } from './exposition.ts';

/** HTTP answers by route and status: refusals that never became a request are seen here only. */
export class Answers {
  /** `METHOD /path` as in the route table, never a client's words → status → count. */
  readonly #counts = new Map<string, Map<number, number>>();

  count(route: string, status: number): void {
    let statuses = this.#counts.get(route);
    if (!statuses) {
      statuses = new Map();
      this.#counts.set(route, statuses);
    }
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }

  families(): Family[] {
    const samples = [...this.#counts].flatMap(([route, statuses]) => {
      const [method = '', path = ''] = route.split(' ');
      return [...statuses].map(([status, value]) => ({
        labels: labels({ method, route: path, status: String(status) }),
        value,
      }));
    });
    const help = 'HTTP answers begun, by route and status.';
    return [{ name: 'tollgate_http_answers_total', help, type: 'counter', samples }];
  }
}
