"""Read logs from files, frames and other systems."""

from backcast.io.obd import read_obd as read_obd
from backcast.io.stream import LogStream as LogStream
from backcast.io.tables import read_log as read_log
from backcast.io.tables import scan_log as scan_log
from backcast.io.vw import read_vw as read_vw
from backcast.io.vw import scan_vw as scan_vw

__all__: list[str]
