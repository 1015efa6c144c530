import { expect, test } from 'bun:test';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { noCharges } from '../price/fee-kinds.ts';
import { withoutCharge, withWriteOff, writeOff } from './write-off.ts';

const [mine, theirs] = [callerOf('ten_1'), callerOf('ten_2')];
const of = (caller = mine, charge = 10) => settlementOf(crypto.randomUUID(), caller, charge);

test("writeOff deducts from the wallet's latest settlements first", () => {
  const all = [of(mine, 10), of(theirs, 10), of(mine, 4), of(mine, 0), of(theirs, 10)];
  const written = writeOff(all, 'tenant:ten_1', 6);
  expect(written.map(({ record }) => record.charges.modelCharge)).toEqual([8, 10, 0, 0, 10]);
  expect(written.map(({ writtenOff }) => writtenOff)).toEqual([2, 0, 4, 0, 0]);
  expect(written.map(({ record }) => record.note !== null)).toEqual([
    true,
    false,
    true,
    false,
    false,
  ]);
  expect(written.map(({ record }) => record.requestId)).toEqual(
    all.map(({ record }) => record.requestId),
  );
});

test('withWriteOff deducts from the fees in order', () => {
  const plain = of();
  const fees = { modelCharge: 3, byokPlatformFee: 4, managedToolFee: 5, agentRuntimeFee: 6 };
  const settlement = { ...plain, record: { ...plain.record, charges: fees } };
  const { record, writtenOff } = withWriteOff(settlement, 9);
  expect(record.charges).toEqual({
    modelCharge: 0,
    byokPlatformFee: 0,
    managedToolFee: 3,
    agentRuntimeFee: 6,
  });
  expect(writtenOff).toBe(9);
});

test('withWriteOff appends to the note', () => {
  const plain = of();
  const noted = { ...plain, record: { ...plain.record, note: 'An estimate.' } };
  expect(withWriteOff(noted, 2).record.note).toBe(
    "An estimate. 2 credits were written off because the wallet couldn't cover them.",
  );
  expect(withWriteOff(plain, 1).record.note).toBe(
    "1 credit was written off because the wallet couldn't cover them.",
  );
});

test('withWriteOff adds up several losses', () => {
  const { record, writtenOff } = withWriteOff(withWriteOff(of(mine, 10), 3), 4);
  expect([record.charges.modelCharge, writtenOff]).toEqual([3, 7]);
});

test("withWriteOff reduces the charge on the key's limit", () => {
  const limited = (keyCharge: number) => ({ ...of(mine, 10), keyAccount: 'key:a', keyCharge });
  const counted = [limited(10), limited(4)].map(
    (settlement) => withWriteOff(settlement, 3).keyCharge,
  );
  expect(counted).toEqual([7, 4]);
});

test('withoutCharge removes all charges and records the error', () => {
  const settlement = { ...of(mine, 10), keyAccount: 'key:a', keyCharge: 10, writtenOff: 5 };
  const { record, keyCharge, writtenOff } = withoutCharge(settlement, {
    error: 'service_unavailable',
    note: 'No journal.',
  });
  expect([record.charges, keyCharge, writtenOff]).toEqual([noCharges, 0, 0]);
  expect(record).toMatchObject({
    status: 'error',
    error: 'service_unavailable',
    note: 'No journal.',
  });
});
