import { afterEach, expect, mock, spyOn, test } from 'bun:test';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { abandonedConnectionsMax } from '../../core/bounds.ts';
import { ConnectionPool } from './pool.ts';
import { RoundTrip } from './round-trip.ts';

afterEach(() => mock.restore());

test('ConnectionPool limits the number of connections abandoned while opening', async () => {
  const opening: PromiseWithResolvers<never>[] = [];
  spyOn(Bun, 'connect').mockImplementation(() => {
    const connection = Promise.withResolvers<never>();
    opening.push(connection);
    return connection.promise;
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

  // The system gives up one of them, so another can be opened.
  opening[0]?.reject(new Error('ETIMEDOUT'));
  await Bun.sleep(0);
  expect(await giveUp()).toMatchObject({ code: 'ECONNABORTED' });
  expect(await giveUp()).toMatchObject({ code: 'ETIMEDOUT' });
  expect(opening).toHaveLength(abandonedConnectionsMax + 1);
});
