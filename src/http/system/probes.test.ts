import { expect, test } from 'bun:test';
import { Router } from '../router.ts';
import { Exchange } from '../routes.ts';
import { healthRoutes } from './probes.ts';

test('GET /readyz returns 503 when the store does not respond', async () => {
  const ping = () => new Promise<never>(() => {});
  const routes = new Router(healthRoutes({ version: '1', ping, isDraining: () => false }));
  const ready = routes.match('GET', '/readyz')?.route;
  if (ready?.access !== 'public') throw new Error('The route is not public.');
  const answer = await ready.handle(new Exchange(new Request('http://gateway/readyz')));
  expect(answer.status).toBe(503);
  expect(await answer.json()).toEqual({
    status: 'unavailable',
    reason: 'The store is unavailable: no response within 4 seconds.',
  });
}, 60_000);
