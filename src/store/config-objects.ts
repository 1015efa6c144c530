import type { Kysely, Selectable } from 'kysely';
import type {
  ConfigChanges,
  ConfigSnapshot,
  ConfigStore,
  StoredObject,
} from '../control/config-store.ts';
import { currentActor } from '../core/actor.ts';
import { fieldsOf, parseJson } from '../core/json.ts';
import { recordChanges } from './audit-log.ts';
import { configurationScope, countChange } from './changes.ts';
import type { ConfigObjectsTable } from './config-tables.ts';
import { inTransaction, SqlRepository, type StoreTransaction } from './database.ts';
import type { Schema } from './schema.ts';
import { getOrCreateSetting, readSetting, replaceSetting } from './settings.ts';
import { fingerprintSetting } from './tenants/credentials.ts';

const versionSetting = 'config_version';

export class SqlConfigObjects extends SqlRepository implements ConfigStore {
  async version(): Promise<number> {
    return Number((await readSetting(this.database, versionSetting)) ?? 0);
  }

  async read(): Promise<ConfigSnapshot> {
    // Read the version first. If the objects are newer than that, the next poll reads them again.
    const version = await this.version();
    return { version, objects: await readConfigObjects(this.database.read) };
  }

  change(
    now: number,
    ownKey: string,
    plan: (current: ConfigSnapshot, sealingKey: string) => ConfigChanges,
  ): Promise<ConfigSnapshot> {
    return inTransaction(this.database, async (trx) => {
      // This locks the row, so that each change is planned for the result of the one before.
      const before = Number(await getOrCreateSetting(trx, versionSetting, '0'));
      const sealingKey = await getOrCreateSetting(trx, fingerprintSetting, ownKey);
      const objects = await readConfigObjects(trx);
      const tenantsByPlan = await countTenantsByPlan(trx);
      const changes = plan({ version: before, objects, tenantsByPlan }, sealingKey);
      const version = before + 1;
      await apply(trx, changes, version, now);
      await recordChanges(trx, changes.audited, now);
      await replaceSetting(trx, versionSetting, String(version));
      await countChange(trx, configurationScope);
      return { version, objects: await readConfigObjects(trx) };
    });
  }
}

export async function readConfigObjects(db: Kysely<Schema>): Promise<readonly StoredObject[]> {
  const rows = await db
    .selectFrom('config_objects')
    .selectAll()
    .orderBy('kind')
    .orderBy('name')
    .execute();
  return rows.map(objectOf);
}

async function countTenantsByPlan(db: Kysely<Schema>): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom('tenants')
    .select(({ fn }) => ['plan', fn.countAll().as('count')])
    .where('plan', 'is not', null)
    .groupBy('plan')
    .execute();
  return new Map(rows.map(({ plan, count }) => [plan ?? '', Number(count)]));
}

async function apply(
  trx: StoreTransaction,
  { saved, removed }: ConfigChanges,
  version: number,
  now: number,
): Promise<void> {
  const by = currentActor()?.name ?? 'tollgate';
  for (const { kind, name, document, sealed } of saved) {
    const changed = {
      document: JSON.stringify(document),
      sealed,
      version,
      updated_at: now,
      updated_by: by,
    };
    await trx
      .insertInto('config_objects')
      .values({ kind, name, created_at: now, created_by: by, ...changed })
      .onConflict((conflict) => conflict.columns(['kind', 'name']).doUpdateSet(changed))
      .execute();
  }
  for (const { kind, name } of removed) {
    await trx
      .deleteFrom('config_objects')
      .where('kind', '=', kind)
      .where('name', '=', name)
      .execute();
  }
}

function objectOf(row: Selectable<ConfigObjectsTable>): StoredObject {
  return {
    kind: row.kind,
    name: row.name,
    document: fieldsOf(parseJson(row.document)),
    sealed: row.sealed,
    version: row.version,
    createdAt: row.created_at,
    createdBy: row.created_by,
    updatedAt: row.updated_at,
    updatedBy: row.updated_by,
  };
}
