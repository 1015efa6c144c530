import { strict as assert } from 'node:assert';
import type { WebhookRotation, WebhookRotations } from '../../jobs/webhook-signer.ts';
import { recordChanges } from '../audit-log.ts';
import { inTransaction, SqlRepository } from '../database.ts';

export class SqlWebhookRotations extends SqlRepository implements WebhookRotations {
  async find(tenantId: string): Promise<WebhookRotation> {
    const row = await this.database.read
      .selectFrom('tenants')
      .select(['webhook_rotations', 'previous_webhook_secret_until'])
      .where('id', '=', tenantId)
      .executeTakeFirst();
    return rotationOf(row);
  }

  rotate(tenantId: string, previousUntil: number, now: number): Promise<WebhookRotation> {
    return inTransaction(this.database, async (trx) => {
      const row = await trx
        .updateTable('tenants')
        .set((eb) => ({
          webhook_rotations: eb('webhook_rotations', '+', 1),
          previous_webhook_secret_until: previousUntil,
          updated_at: now,
        }))
        .where('id', '=', tenantId)
        .returning(['webhook_rotations', 'previous_webhook_secret_until'])
        .executeTakeFirst();
      const rotation = rotationOf(row);
      // The secrets are derived from these numbers and never stored.
      const before = { webhook_rotations: rotation.number - 1 };
      const change = { action: 'webhook_secret.rotate', target: tenantId, tenantId };
      await recordChanges(trx, [{ ...change, before, after: row }], now);
      return rotation;
    });
  }
}

interface RotationRow {
  readonly webhook_rotations: number;
  readonly previous_webhook_secret_until: number | null;
}

function rotationOf(row: RotationRow | undefined): WebhookRotation {
  assert(row, 'A tenant with webhooks has no row.');
  return { number: row.webhook_rotations, previousUntil: row.previous_webhook_secret_until };
}
