import { expect, test } from 'bun:test';
import { Router } from '../router.ts';
import { Exchange } from '../routes.ts';
import { healthRoutes } from './probes.ts';

const routesWith = (ping: () => Promise<void>, warning?: string) =>
  new Router(healthRoutes({ version: '1', ping, isDraining: () => false, warning: () => warning }));

test('GET /readyz warns while booking is behind', async () => {
  const ready = routesWith(async () => {}, 'Booking is behind.').match('GET', '/readyz')?.route;
  if (ready?.access !== 'public') throw new Error('The route is not public.');
  const answer = await ready.handle(new Exchange(new Request('http://gateway/readyz')));
  expect(answer.status).toBe(200);
  expect(await answer.json()).toEqual({
    status: 'ok',
    version: '1',
    warning: 'Booking is behind.',
  });
});

test('GET /readyz returns 503 when the store does not respond', async () => {
  const ping = () => new Promise<never>(() => {});
  const routes = routesWith(ping);
  const ready = routes.match('GET', '/readyz')?.route;
  if (ready?.access !== 'public') throw new Error('The route is not public.');
  const answer = await ready.handle(new Exchange(new Request('http://gateway/readyz')));
  expect(answer.status).toBe(503);
  expect(await answer.json()).toEqual({
    status: 'unavailable',
    reason: 'The store is unavailable: no response within 4 seconds.',
  });
}, 60_000);

test.each([
  [
    'Postgres at db.internal:5432/ledger cannot be reached: connection refused.',
    'The store is unavailable: Postgres cannot be reached: connection refused.',
  ],
  ['connect ECONNREFUSED 10.0.0.5:5432', 'The store is unavailable: connect ECONNREFUSED'],
  ['getaddrinfo ENOTFOUND db.internal', 'The store is unavailable: getaddrinfo ENOTFOUND'],
  [
    'no pg_hba.conf entry for host "10.0.0.9", user "tollgate", database "ledger", no encryption',
    'The store is unavailable: no … entry for host …, user …, database …, no encryption',
  ],
  ['The server db.internal:5432 closed it.', 'The store is unavailable: The server … closed it.'],
  ['lost fd00::5:5432 and ::1', 'The store is unavailable: lost … and …'],
])('GET /readyz does not name the host in "%s"', async (message, reason) => {
  const ping = () => Promise.reject(new Error(message, { cause: new Error('at 10.0.0.5') }));
  const routes = routesWith(ping);
  const ready = routes.match('GET', '/readyz')?.route;
  if (ready?.access !== 'public') throw new Error('The route is not public.');
  const answer = await ready.handle(new Exchange(new Request('http://gateway/readyz')));
  expect(await answer.json()).toEqual({ status: 'unavailable', reason });
});
