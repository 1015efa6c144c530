import { afterEach, expect, mock, spyOn, test } from 'bun:test';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { abandonedConnectionsMax } from '../../core/bounds.ts';
import { ConnectionPool } from './pool.ts';
import { RoundTrip } from './round-trip.ts';

afterEach(() => mock.restore());

test('a server that drops what is sent to it takes only so many open files', async () => {
  const opening: PromiseWithResolvers<never>[] = [];
  spyOn(Bun, 'connect').mockImplementation(() => {
    const one = Promise.withResolvers<never>();
    opening.push(one);
    return one.promise;
  });
  const connections = new ConnectionPool({ hostname: '127.0.0.1', port: 1, isSecure: false });
  const giveUp = async () => {
    const trip = new RoundTrip({ start: 'POST / HTTP/1.1\r\n\r\n', rest: undefined });
    connections.start(trip);
    const failure = failureOf(trip.response);
    trip.cancel();
    return failure;
  };
  for (let count = 0; count < abandonedConnectionsMax; count += 1) {
    expect(await giveUp()).toMatchObject({ code: 'ECONNABORTED' });
  }
  expect(await giveUp()).toMatchObject({ code: 'ETIMEDOUT' });
  expect(opening).toHaveLength(abandonedConnectionsMax);

  // The system has given up one of them: there is a place for the next.
  opening[0]?.reject(new Error('ETIMEDOUT'));
  await Bun.sleep(0);
  expect(await giveUp()).toMatchObject({ code: 'ECONNABORTED' });
  expect(await giveUp()).toMatchObject({ code: 'ETIMEDOUT' });
  expect(opening).toHaveLength(abandonedConnectionsMax + 1);
});
